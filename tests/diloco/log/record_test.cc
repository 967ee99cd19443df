// What regions say to each other, on the wire and on disk.
#include "diloco/log/record.h"

#include <functional>
#include <limits>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diloco/log/messages.h"

namespace causeway::diloco {
namespace {

using ::testing::HasSubstr;

std::vector<inter::BlobId> some_blobs(std::size_t count) {
  std::vector<inter::BlobId> blobs(count);
  for (std::size_t i = 0; i < count; ++i) {
    blobs[i].hash.fill(static_cast<std::uint8_t>(i + 1));
    blobs[i].size_bytes = 1000 + i;
  }
  return blobs;
}

Contribution cut_in(std::size_t shards) {
  Contribution made;
  made.region = "a";
  made.shards = some_blobs(shards);
  made.payload = whole_of(made.shards);
  made.whole = sha256({});
  return made;
}

CommitRecord record_with_sums(std::size_t sums) {
  CommitRecord record{.run_id = "run", .round = 7, .participants = {}};
  record.participants = {participant_of(cut_in(3), 0.5F)};
  record.revision = 2;
  record.next_sharded = true;
  record.sums = some_blobs(sums);
  return record;
}

CommitRecord of_two_regions() {
  const std::vector<inter::BlobId> payloads = some_blobs(2);
  return {
      .run_id = "run-1",
      .participants =
          {{.region = "a", .weight = 0.25F, .data_cursor = 7, .tokens = 10, .payload = payloads[0]},
           {.region = "b",
            .weight = 0.75F,
            .data_cursor = 9,
            .tokens = 30,
            .payload = payloads[1]}},
      .state = sha256({}),
      .next_k = 4};
}

std::string complaint_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::system_error& error) {
    return error.what();
  }
  return "accepted";
}

template <typename Body>
Body through_the_wire(const Body& body) {
  return std::get<Body>(parse_message(serialize(Message(body))));
}

TEST(ShardRecords, AContributionComesBackWithItsShards) {
  for (const std::size_t shards : {0UL, 1UL, 3UL, kShardsMax}) {
    Contribution made = cut_in(shards);
    const Contribution read = parse_contribution(serialize(made));
    EXPECT_EQ(read.shards, made.shards);
    EXPECT_EQ(read.payload, made.payload);
    EXPECT_EQ(read.whole, made.whole);
    made.whole.reset();
    EXPECT_FALSE(parse_contribution(serialize(made)).whole);
  }
}

TEST(ContributionRecords, AComputeTimeThatIsNoneIsRefused) {
  for (const double compute_s :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    Contribution made = cut_in(0);
    made.compute_s = compute_s;
    EXPECT_THAT(complaint_of([&] {
                  through_the_wire(Holding{made, 0, false});
                }),
                HasSubstr("a contribution's time"));
  }
}

TEST(ShardRecords, ARecordComesBackWithItsSums) {
  for (const std::size_t sums : {0UL, 1UL, 3UL, kShardsMax}) {
    const CommitRecord record = record_with_sums(sums);
    const CommitRecord read = parse_commit_record(serialize(record));
    EXPECT_TRUE(read.next_sharded);
    EXPECT_EQ(read.sums, record.sums);
    EXPECT_EQ(read.participants[0].whole, record.participants[0].whole);
    EXPECT_EQ(serialize(read), serialize(record));
  }
}

// Records of full rounds stay the bytes that they were.
TEST(ShardRecords, WhatIsNotShardedHasNoByteMore) {
  CommitRecord record = record_with_sums(0);
  const std::size_t sharded_next = serialize(record).size();
  record.next_sharded = false;
  EXPECT_EQ(serialize(record).size(), sharded_next - 3) << "a tag of two bytes, and one for true";
  Contribution made = cut_in(0);
  const std::size_t hashed = serialize(made).size();
  made.whole.reset();
  EXPECT_EQ(serialize(made).size(), hashed - 3 - 32);
}

TEST(ShardRecords, AParticipantIsNamedByTheHashOfWhatItsRegionMade) {
  Contribution made = cut_in(3);
  EXPECT_EQ(participant_of(made, 1).made_hash(), *made.whole);
  made.whole.reset();
  EXPECT_EQ(participant_of(made, 1).made_hash(), made.payload.hash);
}

TEST(ShardRecords, WhatIsStoredAndWhatIsAppliedAreTheParts) {
  Contribution made = cut_in(3);
  EXPECT_EQ(blobs_of(made), made.shards);
  made.sits_out = true;
  EXPECT_TRUE(blobs_of(made).empty());
  EXPECT_EQ(applied_blobs(record_with_sums(2)), some_blobs(2));
  EXPECT_EQ(applied_blobs(record_with_sums(0)), std::vector{cut_in(3).payload});
}

TEST(ShardRecords, AWholeHasTheBytesOfItsShardsAndKnowsTheirOrder) {
  std::vector<inter::BlobId> shards = some_blobs(3);
  const inter::BlobId whole = whole_of(shards);
  EXPECT_EQ(whole.size_bytes, 3003U);
  std::swap(shards[0], shards[2]);
  EXPECT_NE(whole_of(shards).hash, whole.hash);
}

TEST(ShardRecords, ShardsThatThePayloadDoesNotNameAreRefused) {
  const auto refused = [](const Contribution& made) {
    return complaint_of([&] { parse_contribution(serialize(made)); });
  };
  Contribution swapped = cut_in(3), fewer = cut_in(3), longer = cut_in(3);
  std::swap(swapped.shards[0], swapped.shards[1]);
  fewer.shards.pop_back();
  ++longer.payload.size_bytes;
  for (const Contribution& made : {swapped, fewer, longer})
    EXPECT_THAT(refused(made), HasSubstr("not those that its payload names"));
  EXPECT_EQ(refused(cut_in(3)), "accepted");
}

// Everybody would have all of it, and nobody could sum it.
TEST(ShardRecords, ShardsAndSumsWithoutBytesAreRefused) {
  Contribution made = cut_in(3);
  made.shards[1].size_bytes = 0;
  made.payload = whole_of(made.shards);
  EXPECT_THAT(complaint_of([&] { parse_contribution(serialize(made)); }),
              HasSubstr("a shard without bytes"));
  CommitRecord record = record_with_sums(3);
  record.sums[2].size_bytes = 0;
  EXPECT_THAT(complaint_of([&] { parse_commit_record(serialize(record)); }),
              HasSubstr("a shard without bytes"));
}

TEST(ShardRecords, MoreThan64ShardsAreRefused) {
  const std::string said = "more than 64 shards";
  EXPECT_THAT(complaint_of([] { parse_contribution(serialize(cut_in(65))); }), HasSubstr(said));
  EXPECT_THAT(complaint_of([] { parse_commit_record(serialize(record_with_sums(65))); }),
              HasSubstr(said));
  EXPECT_THAT(complaint_of([] { through_the_wire(Draft{record_with_sums(65)}); }), HasSubstr(said));
  EXPECT_THAT(complaint_of([] { through_the_wire(Holding{cut_in(65)}); }), HasSubstr(said));
}

// ---- Any round's ----

TEST(CommitRecords, RefusesWhatIsNotARecord) {
  EXPECT_THROW(parse_commit_record("nonsense"), std::system_error);
  CommitRecord unordered = of_two_regions();
  std::swap(unordered.participants[0], unordered.participants[1]);
  EXPECT_THROW(parse_commit_record(serialize(unordered)), std::system_error);
  CommitRecord negative = of_two_regions();
  negative.participants[0].weight = -1;
  EXPECT_THROW(parse_commit_record(serialize(negative)), std::system_error);
  CommitRecord boundless = of_two_regions();
  boundless.participants[0].payload.size_bytes = inter::kBlobBytesMax + 1;
  EXPECT_THROW(parse_commit_record(serialize(boundless)), std::system_error);
  const std::string whole = serialize(of_two_regions());
  EXPECT_NO_THROW(parse_commit_record(whole));
  EXPECT_THROW(parse_commit_record(whole.substr(0, whole.size() / 2)), std::system_error);
}

TEST(CommitRecords, CarriesWhatWasPaidAndWhatTheBudgetDecided) {
  CommitRecord paid = of_two_regions();
  paid.decided_unix_s = 1.75e9;
  paid.egress = {{"asia", 1.5}, {"eu", 0}};
  paid.k_decision = {.verdict = KDecision::Verdict::paused, .from = 20, .k = 900};
  paid.k_decision->spending = {.period = Spending::Period::month,
                               .limit = 40,
                               .spent = 39.5,
                               .round_cost = 0.5,
                               .until_unix_s = 1.76e9};
  const CommitRecord read = parse_commit_record(serialize(paid));
  EXPECT_EQ(serialize(read), serialize(paid));
  EXPECT_EQ(read.k_decision->spending, paid.k_decision->spending);
  ASSERT_EQ(read.egress.size(), 2);
  EXPECT_EQ(read.egress[0].cost, 1.5);
}

TEST(CommitRecords, RefusesCostsThatCannotBe) {
  for (const double cost : {-1.0, 1e16, std::numeric_limits<double>::infinity()}) {
    CommitRecord liar = of_two_regions();
    liar.egress = {{"asia", cost}};
    EXPECT_THROW(parse_commit_record(serialize(liar)), std::system_error) << cost;
    Contribution contribution{.run_id = {}, .region = "asia"};
    contribution.egress_cost = cost;
    EXPECT_THROW(parse_contribution(serialize(contribution)), std::system_error) << cost;
  }
  CommitRecord unordered = of_two_regions();
  unordered.egress = {{"eu", 1}, {"asia", 1}};
  EXPECT_THROW(parse_commit_record(serialize(unordered)), std::system_error);
}

// ---- The log ----

// Two million of them fit into a message, and would take a gigabyte.
TEST(LogMessages, VeryManyEmptyEntriesAreRefused) {
  AppendEntries append{.term = 1, .entries = std::vector<LogEntry>(64)};
  EXPECT_NO_THROW(parse_message(serialize(RaftMessage{.incarnation = "1", .body = append})));
  append.entries.resize(5000);
  EXPECT_THROW(parse_message(serialize(RaftMessage{.incarnation = "1", .body = append})),
               std::system_error);
}

// ---- Members ----

// Its word for itself comes into every log, and from there into every message to who lags.
TEST(MemberMessages, NamesAndAddressesThatAreNoneAreTooLong) {
  const auto refused = [](Member member) {
    return complaint_of([&] { through_the_wire(ChangeMember{std::move(member)}); });
  };
  const std::string longest_host = std::string(253, 'h') + ":65535";
  EXPECT_EQ(refused({.region = std::string(63, 'r'), .address = longest_host}), "accepted");
  EXPECT_THAT(refused({.region = std::string(64, 'r')}), HasSubstr("too long"));
  EXPECT_THAT(refused({.region = "r", .address = std::string(301, 'h')}), HasSubstr("too long"));
  EXPECT_THAT(refused({.region = "r", .incarnation = std::string(65, 'i')}), HasSubstr("too long"));
  const RaftMessage vote{.incarnation = std::string(65, 'i'), .body = VoteReply{}};
  EXPECT_THAT(complaint_of([&] { through_the_wire(vote); }), HasSubstr("too long"));
}

// ---- Between leader and summers ----

TEST(ShardMessages, ADraftComesBack) {
  const Draft draft{.record = record_with_sums(3), .duties = {{0, "c"}, {2, "d"}}};
  const Draft read = through_the_wire(draft);
  EXPECT_EQ(serialize(read.record), serialize(draft.record));
  EXPECT_EQ(read.duties, draft.duties);
}

TEST(ShardMessages, VeryManyEmptyDutiesAreRefused) {
  Draft draft{.record = record_with_sums(3), .duties = std::vector<Draft::Duty>(64)};
  EXPECT_EQ(through_the_wire(draft).duties.size(), 64U);
  draft.duties.resize(70'000);
  EXPECT_THAT(complaint_of([&] { through_the_wire(draft); }), HasSubstr("too many duties"));
}

TEST(ShardMessages, SumsComeBack) {
  const std::vector<inter::BlobId> blobs = some_blobs(2);
  ShardSums sums{.round = 7,
                 .draft = draft_digest(record_with_sums(0)),
                 .sums = {{0, blobs[0]}, {63, blobs[1]}}};
  EXPECT_FALSE(through_the_wire(sums).held);
  sums.held = whole_of(blobs).hash;
  const ShardSums read = through_the_wire(sums);
  EXPECT_EQ(read.round, sums.round);
  EXPECT_EQ(read.draft, sums.draft);
  EXPECT_EQ(read.sums, sums.sums);
  EXPECT_EQ(read.held, sums.held);
}

// The digest of what the sums follow from.
TEST(ShardMessages, ADraftIsKnownByWhatItListsAndNotByItsSums) {
  const CommitRecord record = record_with_sums(0);
  const Digest digest = draft_digest(record);
  EXPECT_EQ(draft_digest(record_with_sums(3)), digest);
  const std::vector<std::function<void(CommitRecord&)>> changes{
      [](CommitRecord& other) { other.round = 8; },
      [](CommitRecord& other) { other.run_id = "another"; },
      [](CommitRecord& other) { other.revision = 3; },
      [](CommitRecord& other) { other.state.fill(1); },
      [](CommitRecord& other) { other.participants[0].weight = 0.25F; },
      [](CommitRecord& other) { other.participants[0].payload = some_blobs(1)[0]; },
      [](CommitRecord& other) { other.participants.clear(); }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    CommitRecord other = record;
    changes[i](other);
    EXPECT_NE(draft_digest(other), digest) << i;
  }
}

}  // namespace
}  // namespace causeway::diloco
