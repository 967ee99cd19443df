// What region a sums in a sharded round: members a, b and c, of which b leads. Of three shards a
// sums the first, with b, and the last, with c.
#include "diloco/round/summing.h"

#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diloco/round/beginning.h"
#include "diloco/round/catch_up.h"
#include "diloco/round/exchange.h"
#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kSumMembers = {"a", "b", "c"};

ProtocolOptions sharded_options_of_a() {
  ProtocolOptions options = options_of_a();
  options.exchange = ExchangeKind::sharded;
  return options;
}

inter::BlobId blob_called(const std::string& name) {
  return {.hash = sha256(std::as_bytes(std::span(name))), .size_bytes = 100};
}

Contribution cut_by(const std::string& region) {
  Contribution made = made_by(region);
  for (int i = 0; i < 3; ++i) made.shards.push_back(blob_called(region + std::to_string(i)));
  made.payload = whole_of(made.shards);
  return made;
}

class SummingTest : public ::testing::Test {
 protected:
  explicit SummingTest(bool attaches = true) {
    region_.agreement.start(Time{0});
    for (const char* peer : {"b", "c"}) {
      region_.peers.set_up(peer, peer + std::string("'s disk"));
      region_.agreement.raft().on_peer_up(peer, peer + std::string("'s disk"), Time{0});
    }
    if (attaches) region_.worker.attach({}, std::nullopt);
    exchange_.add_own(cut_by("a"), Time{0});
    for (const char* peer : {"b", "c"}) exchange_.hear(peer, {cut_by(peer), 300, true}, Time{0});
    draft_.record.run_id = "run1";
    for (const std::string& one : kSumMembers)
      draft_.record.participants.push_back(participant_of(cut_by(one), 0.25F));
  }
  void b_leads() {
    region_.agreement.raft().on_message("b", {"b's disk", AppendEntries{.term = 1, .entries = {}}},
                                        Time{0});
  }
  void arrives(const inter::BlobId& blob) { exchange_.on_arrived(blob, Time{0}); }
  void all_arrive() {
    for (const char* peer : {"b", "c"})
      for (const inter::BlobId& shard : cut_by(peer).shards) arrives(shard);
  }
  // Numbers of the shards that are to be summed now.
  std::vector<std::uint32_t> summed_now() {
    region_.out.take();
    summing_.sum(Time{0});
    return orders();
  }
  std::vector<std::uint32_t> orders() {
    std::vector<std::uint32_t> shards;
    for (const SumShard& order : taken<SumShard>()) shards.push_back(order.shard);
    return shards;
  }
  template <typename Kind>
  std::vector<Kind> taken() {
    std::vector<Kind> of_kind;
    for (const Action& action : region_.out.take())
      if (const auto* one = std::get_if<Kind>(&action)) of_kind.push_back(*one);
    return of_kind;
  }
  std::vector<ShardSums> words_to_b() {
    std::vector<ShardSums> words;
    for (const SendMessage& sent : taken<SendMessage>())
      if (const auto* word = std::get_if<ShardSums>(&sent.message); word && sent.peer == "b")
        words.push_back(*word);
    return words;
  }
  std::vector<std::string> errors() {
    std::vector<std::string> texts;
    for (const Note& note : taken<Note>())
      if (note.severity == Note::Severity::error) texts.push_back(note.text);
    return texts;
  }
  void made(std::uint32_t shard, const std::string& sum) {
    summing_.on_summed(draft_digest(draft_.record), shard, blob_called(sum), Time{0});
  }

  Region region_{sharded_options_of_a(), state_of_a(kSumMembers)};
  Beginning beginning_{region_};
  Leader leader_{region_, beginning_};
  CatchUp catch_up_{region_};
  Exchange exchange_{region_, leader_, catch_up_};
  Summing summing_{region_, leader_};
  Draft draft_;
};

TEST_F(SummingTest, SumsEachOfItsShardsOnceAsSoonAsAllOfItIsHere) {
  b_leads();
  summing_.hear("b", draft_);
  EXPECT_THAT(summed_now(), IsEmpty());
  arrives(cut_by("b").shards[2]);
  EXPECT_THAT(summed_now(), IsEmpty()) << "c's is missing";
  arrives(cut_by("c").shards[2]);
  region_.out.take();
  summing_.sum(Time{0});
  const std::vector<SumShard> first = taken<SumShard>();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].shard, 2U);
  EXPECT_THAT(first[0].inputs,
              ElementsAre(blob_called("a2"), blob_called("b2"), blob_called("c2")));
  all_arrive();
  EXPECT_THAT(summed_now(), ElementsAre(0U)) << "shard 1 is not a's, and 2 is begun";
  EXPECT_THAT(summed_now(), IsEmpty());
}

TEST_F(SummingTest, ShardsThatItIsGivenComeOnTop) {
  b_leads();
  draft_.duties = {{1, "a"}, {1, "c"}, {700, "a"}};
  summing_.hear("b", draft_);
  all_arrive();
  EXPECT_THAT(summed_now(), ElementsAre(0U, 1U, 2U));
}

TEST_F(SummingTest, ADraftCountsOnceItsSenderLeads) {
  summing_.hear("b", draft_);
  all_arrive();
  EXPECT_THAT(summed_now(), IsEmpty());
  b_leads();
  EXPECT_THAT(summed_now(), ElementsAre(0U, 2U));
}

TEST_F(SummingTest, DraftsOfOthersAndOfOtherRoundsCountForNothing) {
  b_leads();
  all_arrive();
  summing_.hear("c", draft_);
  EXPECT_THAT(summed_now(), IsEmpty());
  draft_.record.round = 1;
  summing_.hear("b", draft_);
  EXPECT_THAT(summed_now(), IsEmpty());
  draft_.record.round = 0;
  draft_.record.run_id = "another run";
  summing_.hear("b", draft_);
  EXPECT_THAT(summed_now(), IsEmpty());
}

class SummingUnattachedTest : public SummingTest {
 protected:
  SummingUnattachedTest() : SummingTest(false) {}
};

// What a program trains says how its tensors are summed, and is not on disk.
TEST_F(SummingUnattachedTest, NothingIsSummedBeforeAWorkerHasAttached) {
  b_leads();
  summing_.hear("b", draft_);
  all_arrive();
  EXPECT_THAT(summed_now(), IsEmpty());
  region_.worker.attach({}, std::nullopt);
  region_.worker.lose();
  EXPECT_THAT(summed_now(), ElementsAre(0U, 2U)) << "one that is gone has said it";
}

TEST_F(SummingTest, SaysWhatItMadeAndSaysItAgainWhenAsked) {
  b_leads();
  summing_.hear("b", draft_);
  all_arrive();
  summed_now();
  made(0, "sum 0");
  std::vector<ShardSums> words = words_to_b();
  ASSERT_EQ(words.size(), 1U);
  EXPECT_EQ(words[0].draft, draft_digest(draft_.record));
  EXPECT_THAT(words[0].sums, ElementsAre(std::pair(0U, blob_called("sum 0"))));
  summing_.hear("b", draft_);
  summing_.sum(Time{0});
  words = words_to_b();
  ASSERT_EQ(words.size(), 1U);
  EXPECT_EQ(words[0].sums.size(), 1U);
}

// b is the second summer of shard 0, c the first of shard 2.
TEST_F(SummingTest, TheFirstSummerSendsTheSumToThoseThatDoNotMakeIt) {
  b_leads();
  summing_.hear("b", draft_);
  all_arrive();
  summed_now();
  made(0, "sum 0");
  std::vector<std::string> peers;
  for (const PushBlob& push : taken<PushBlob>()) peers.push_back(push.peer);
  EXPECT_THAT(peers, ElementsAre("c"));
  made(2, "sum 2");
  EXPECT_THAT(taken<PushBlob>(), IsEmpty());
}

TEST_F(SummingTest, SaysThatItHasAllThatTheDraftLists) {
  b_leads();
  draft_.record.sums = {blob_called("s0"), blob_called("s1"), blob_called("s2")};
  summing_.hear("b", draft_);
  arrives(blob_called("s0"));
  arrives(blob_called("s2"));
  region_.out.take();
  summing_.sum(Time{0});
  EXPECT_THAT(words_to_b(), IsEmpty());
  EXPECT_THAT(region_.shards.sums(),
              ElementsAre(blob_called("s0"), blob_called("s1"), blob_called("s2")));
  arrives(blob_called("s1"));
  region_.out.take();
  summing_.sum(Time{0});
  const std::vector<ShardSums> words = words_to_b();
  ASSERT_EQ(words.size(), 1U);
  EXPECT_EQ(words[0].held, whole_of(draft_.record.sums).hash);
}

TEST_F(SummingTest, AShardWhoseInputWasDamagedIsSummedAgain) {
  b_leads();
  summing_.hear("b", draft_);
  all_arrive();
  EXPECT_THAT(summed_now(), ElementsAre(0U, 2U));
  exchange_.on_lost(cut_by("c").shards[2], Time{0});
  summing_.on_failed(draft_digest(draft_.record), 2);
  EXPECT_THAT(summed_now(), IsEmpty()) << "it is to come again first";
  arrives(cut_by("c").shards[2]);
  EXPECT_THAT(summed_now(), ElementsAre(2U));
}

TEST_F(SummingTest, ASumThatTheDiskSpoiltIsMadeAgain) {
  b_leads();
  summing_.hear("b", draft_);
  all_arrive();
  summed_now();
  made(0, "sum 0");
  exchange_.on_lost(blob_called("sum 0"), Time{0});
  summing_.on_lost(blob_called("sum 0"));
  EXPECT_THAT(summed_now(), ElementsAre(0U));
}

// ---- Whether the record takes what was summed here ----

TEST_F(SummingTest, ARecordWithAnotherSumIsAnError) {
  b_leads();
  summing_.hear("b", draft_);
  all_arrive();
  summed_now();
  made(0, "sum 0");
  CommitRecord record = draft_.record;
  record.sums = {blob_called("sum 0"), blob_called("sum 1"), blob_called("sum 2")};
  region_.out.take();
  summing_.check(record);
  EXPECT_THAT(errors(), IsEmpty());
  record.sums[0] = blob_called("a lie");
  summing_.check(record);
  EXPECT_THAT(errors(), ElementsAre(HasSubstr("round 0 takes another sum of shard 0")));
}

TEST_F(SummingTest, ASumThatComesAfterTheRecordIsComparedToo) {
  b_leads();
  summing_.hear("b", draft_);
  all_arrive();
  summed_now();
  CommitRecord record = draft_.record;
  record.sums = {blob_called("sum 0"), blob_called("sum 1"), blob_called("a lie")};
  summing_.check(record);
  region_.out.take();
  made(0, "sum 0");
  EXPECT_THAT(errors(), IsEmpty());
  made(2, "sum 2");
  EXPECT_THAT(errors(), ElementsAre(HasSubstr("shard 2")));
}

}  // namespace
}  // namespace causeway::diloco
