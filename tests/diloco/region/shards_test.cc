#include "diloco/region/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "diloco/region/region.h"
#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

Membership members_named(const std::vector<std::string>& names) {
  Membership membership;
  for (const std::string& name : names) membership = with(membership, {.region = name});
  return membership;
}

CommitRecord listed_in_round_0(const std::vector<std::string>& names, bool next_sharded = true) {
  CommitRecord record;
  record.run_id = "run1";
  record.next_k = 4;
  record.next_sharded = next_sharded;
  for (const std::string& name : names) record.participants.push_back({.region = name});
  return record;
}

inter::BlobId shard_blob(const std::string& content, std::uint64_t size_bytes) {
  return {.hash = sha256(std::as_bytes(std::span(content))), .size_bytes = size_bytes};
}

// Of 10, 20, 30, ... bytes.
Contribution in_shards(const std::string& region, std::size_t shards, Round round = 0) {
  Contribution made = made_by(region);
  made.round = round;
  for (std::size_t i = 0; i < shards; ++i)
    made.shards.push_back(
        shard_blob(region + std::to_string(round) + "." + std::to_string(i), 10 * (i + 1)));
  made.payload = whole_of(made.shards);
  return made;
}

// ---- Whether a round is sharded ----

TEST(IsShardedAfter, TheFirstRoundIsOnlyWhereItIsAskedFor) {
  ProtocolOptions options;
  EXPECT_FALSE(is_sharded_after(nullptr, options)) << "full is the default";
  options.exchange = ExchangeKind::automatic;
  EXPECT_FALSE(is_sharded_after(nullptr, options));
  options.exchange = ExchangeKind::sharded;
  EXPECT_TRUE(is_sharded_after(nullptr, options));
}

TEST(IsShardedAfter, LaterRoundsAreAsTheRecordSays) {
  for (const auto kind : {ExchangeKind::full, ExchangeKind::sharded, ExchangeKind::automatic}) {
    ProtocolOptions options;
    options.exchange = kind;
    const CommitRecord full = listed_in_round_0({"a", "b"}, false);
    const CommitRecord sharded = listed_in_round_0({"a", "b"}, true);
    EXPECT_FALSE(is_sharded_after(&full, options));
    EXPECT_TRUE(is_sharded_after(&sharded, options));
  }
}

// ---- Summers ----

TEST(Summers, EachShardHasTwoAndAllHaveAsMany) {
  const std::vector<std::string> names{"a", "b", "c", "d", "e"};
  const Summers summers(nullptr, members_named(names));
  std::map<std::string, std::size_t> sums, firsts;
  for (std::uint32_t shard = 0; shard < 10; ++shard) {
    const std::vector<std::string> two = summers.of(shard);
    ASSERT_EQ(two.size(), kSummersPerShard);
    EXPECT_NE(two[0], two[1]);
    EXPECT_EQ(summers.first(shard), two[0]);
    ++firsts[two[0]];
    for (const std::string& name : names) {
      const bool is_one = std::ranges::count(two, name) > 0;
      EXPECT_EQ(summers.sums(name, shard), is_one) << name << " " << shard;
      sums[name] += is_one ? 1 : 0;
    }
  }
  for (const std::string& name : names) {
    EXPECT_EQ(sums[name], 4U) << name;
    EXPECT_EQ(firsts[name], 2U) << name << " sends the sum around";
  }
}

TEST(Summers, AreThoseThatWereListedInTime) {
  CommitRecord last = listed_in_round_0({"b", "c", "d"});
  last.round = 3;
  last.participants[0].round = last.participants[1].round = 3;  // d's is late
  last.participants.push_back({.region = "e", .round = 3, .part = 1});
  const Summers summers(&last, members_named({"a", "b", "c", "d", "e"}));
  EXPECT_EQ(summers.usual_count(), 2U);
  EXPECT_EQ(summers.count(), 5U);
  EXPECT_TRUE(summers.includes("b") && summers.includes("c"));
  for (const char* name : {"a", "d", "e"}) EXPECT_FALSE(summers.includes(name)) << name;
  EXPECT_THAT(summers.of(0), ElementsAre("b", "c"));
  EXPECT_THAT(summers.of(1), ElementsAre("c", "b"));
}

TEST(Summers, AreAllMembersThatTrainIfTooFewWereListed) {
  Membership membership = members_named({"a", "b", "c"});
  membership = with(membership, {.region = "w", .witness = true});
  const CommitRecord last = listed_in_round_0({"b"});
  const Summers summers(&last, membership);
  EXPECT_EQ(summers.usual_count(), 3U);
  EXPECT_EQ(summers.count(), 3U);
  EXPECT_FALSE(summers.includes("w"));
}

TEST(Summers, FurtherNamesEverybodyOnceTheListedOnesFirst) {
  const std::vector<std::string> names{"a", "b", "c", "d", "e", "f"};
  const CommitRecord last = listed_in_round_0({"b", "d", "e"});
  const Summers summers(&last, members_named(names));
  for (std::uint32_t shard = 0; shard < 7; ++shard) {
    std::vector<std::string> asked;
    for (std::size_t n = 0; n < summers.count(); ++n) asked.push_back(summers.further(shard, n));
    const std::vector<std::string> first_two(asked.begin(), asked.begin() + 2);
    EXPECT_EQ(summers.of(shard), first_two);
    for (std::size_t n = 0; n < 3; ++n) EXPECT_TRUE(summers.includes(asked[n])) << asked[n];
    EXPECT_THAT(asked, UnorderedElementsAreArray(names)) << shard;
  }
}

TEST(Summers, OneRegionSumsAllAndNobodyIsNobody) {
  const Summers alone(nullptr, members_named({"a"}));
  EXPECT_THAT(alone.of(0), ElementsAre("a"));
  EXPECT_THAT(alone.of(5), ElementsAre("a"));
  const Summers nobody;
  EXPECT_THAT(nobody.of(3), IsEmpty());
  EXPECT_EQ(nobody.first(3), "");
  EXPECT_FALSE(nobody.sums("a", 3));
}

TEST(Summers, WhatARegionIsToHoldIsItsOwnAndItsShardsOfOthers) {
  const Summers summers(nullptr, members_named({"a", "b", "c", "d"}));
  const Contribution made = in_shards("b", 5);  // 10 to 50 bytes
  EXPECT_EQ(summers.bytes_for("b", made), 150U);
  EXPECT_EQ(summers.bytes_for("a", made), 10U + 40 + 50);  // first of 0 and 4, second of 3
  EXPECT_EQ(summers.bytes_for("c", made), 20U + 30);
  EXPECT_EQ(summers.bytes_for("d", made), 30U + 40);
  EXPECT_EQ(summers.bytes_for("e", made), 0U);
  EXPECT_EQ(summers.bytes_for("c", made_by("b")), 100U) << "it comes whole";
}

// ---- Duties ----

// Region a, of a to d.
class ShardDutiesTest : public ::testing::Test {
 protected:
  static PersistentState after_rounds(std::size_t rounds) {
    PersistentState state = state_of_a({"a", "b", "c", "d"});
    for (Round round = 0; round < 2; ++round) {
      CommitRecord record = listed_in_round_0({"a", "b", "c", "d"});
      record.round = round;
      for (Participant& one : record.participants) one.round = round;
      state.raft.log.push_back({.term = 1, .body = record});
    }
    state.raft.committed = 1 + rounds;
    return state;
  }
  static std::vector<inter::BlobId> shards_of(const Contribution& made,
                                              std::initializer_list<std::size_t> which) {
    std::vector<inter::BlobId> shards;
    for (const std::size_t one : which) shards.push_back(made.shards[one]);
    return shards;
  }

  Region region_{options_of_a(), after_rounds(1)};
  ShardDuties& duties_ = region_.shards;
};

TEST_F(ShardDutiesTest, AreTheShardsThatItSumsAndAllOfItsOwn) {
  EXPECT_TRUE(duties_.sharded());
  const Contribution of_b = in_shards("b", 6, 1), own = in_shards("a", 6, 1);
  EXPECT_EQ(duties_.usual(of_b), shards_of(of_b, {0, 3, 4}));
  EXPECT_EQ(duties_.due(of_b), shards_of(of_b, {0, 3, 4}));
  EXPECT_EQ(duties_.usual(own), own.shards);
  EXPECT_EQ(duties_.due(own), own.shards);
  for (std::uint32_t i = 0; i < 6; ++i)
    EXPECT_EQ(duties_.is_mine(i), i == 0 || i == 3 || i == 4) << i;
}

TEST_F(ShardDutiesTest, OfOneThatComesWholeIsThePayload) {
  Contribution whole = made_by("b");
  for (const Round round : {0, 1, 2}) {
    whole.round = round;
    EXPECT_THAT(duties_.usual(whole), ElementsAre(whole.payload));
    EXPECT_THAT(duties_.due(whole), ElementsAre(whole.payload));
  }
}

TEST_F(ShardDutiesTest, OfOneThatSitsOutIsNothing) {
  Contribution out = in_shards("b", 6, 1);
  out.sits_out = true;
  duties_.take_over({1}, {});
  EXPECT_THAT(duties_.usual(out), IsEmpty());
  EXPECT_THAT(duties_.due(out), IsEmpty());
}

// Who sums what then follows from a record that is not there yet.
TEST_F(ShardDutiesTest, OfAnotherRoundThanTheOpenOneIsNothing) {
  duties_.take_over({1}, {});
  for (const Round round : {0, 2}) {
    EXPECT_THAT(duties_.usual(in_shards("b", 6, round)), IsEmpty()) << round;
    EXPECT_THAT(duties_.due(in_shards("b", 6, round)), IsEmpty()) << round;
  }
}

TEST_F(ShardDutiesTest, AShardThatIsTakenOverIsDueAndNotUsual) {
  const Contribution of_b = in_shards("b", 6, 1);
  duties_.take_over({1, 3}, {shard_blob("sum", 5)});  // 3 is its own anyway
  EXPECT_TRUE(duties_.is_mine(1));
  EXPECT_FALSE(duties_.is_mine(2));
  EXPECT_EQ(duties_.usual(of_b), shards_of(of_b, {0, 3, 4}));
  EXPECT_EQ(duties_.due(of_b), shards_of(of_b, {0, 3, 4, 1}));
  EXPECT_THAT(duties_.sums(), ElementsAre(shard_blob("sum", 5)));
}

TEST_F(ShardDutiesTest, ASumIsAskedOfWhoeverWasAskedLastForIt) {
  const std::string usual = duties_.summers().first(1);
  EXPECT_EQ(duties_.maker_of_sum(1), usual);
  duties_.take_over({}, {shard_blob("sum", 5)}, {{1, "z"}});
  EXPECT_EQ(duties_.maker_of_sum(1), "z");
  EXPECT_EQ(duties_.maker_of_sum(0), duties_.summers().first(0));
  region_.history.append(3);
  EXPECT_NE(duties_.maker_of_sum(1), "z") << "another round";
}

TEST_F(ShardDutiesTest, WhatWasTakenOverEndsWithItsRound) {
  duties_.take_over({1}, {shard_blob("sum", 5)});
  region_.history.append(3);
  const Contribution of_b = in_shards("b", 6, 2);
  EXPECT_FALSE(duties_.is_mine(1));
  EXPECT_EQ(duties_.due(of_b), shards_of(of_b, {0, 3, 4}));
  EXPECT_THAT(duties_.sums(), IsEmpty());
}

TEST_F(ShardDutiesTest, FollowTheNewestRecord) {
  PersistentState state = after_rounds(1);
  auto& second = std::get<CommitRecord>(state.raft.log[2].body);
  second.participants.erase(second.participants.begin());  // a was late in round 1
  second.next_sharded = false;
  Region region(options_of_a(), state);
  EXPECT_TRUE(region.shards.summers().includes("a"));
  region.history.append(3);
  region.shards.look_again();
  EXPECT_FALSE(region.shards.summers().includes("a"));
  EXPECT_FALSE(region.shards.sharded());
  EXPECT_THAT(region.shards.usual(in_shards("b", 6, 2)), IsEmpty());
}

}  // namespace
}  // namespace causeway::diloco
