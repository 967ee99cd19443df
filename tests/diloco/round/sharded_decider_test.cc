// Which contributions a sharded round lists, and which rounds are sharded. Regions a to e, and
// payloads of five shards: shard 0 is a's and b's to sum, shard 1 b's and c's, shard 4 e's and a's.
#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diloco/round/decider.h"

namespace causeway::diloco {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kFive{"a", "b", "c", "d", "e"};

class ShardedDeciderTest : public ::testing::Test {
 protected:
  static constexpr Decider::Steps kSteps{.k = 4, .next_k = 4, .since_exchange = 4};

  static Membership five() {
    Membership membership;
    for (const std::string& region : kFive)
      membership = with(membership, {.region = region, .incarnation = "1"});
    return membership;
  }
  // All took part in it.
  static CommitRecord last(Round round, bool next_sharded) {
    CommitRecord record{.run_id = "run", .round = round, .participants = {}};
    for (const std::string& region : kFive)
      record.participants.push_back({.region = region, .round = round});
    record.next_sharded = next_sharded;
    return record;
  }
  // Of round 0, or of the round after `last`.
  static Decider decider(ExchangeKind exchange, const CommitRecord* last = nullptr) {
    ProtocolOptions options;
    options.self = "a";
    options.pace = {.steps = 400, .k = 4};
    options.staleness_max = 2;
    options.grace_min = seconds{1};
    options.grace_max = seconds{30};
    options.exchange = exchange;
    Decider made(options, five(), last);
    for (const std::string& region : kFive)
      if (region != "a") made.set_up(region, true);
    return made;
  }

  // Shards of 100 bytes; 0: it comes whole.
  static Contribution made_in(const std::string& region, std::size_t shards, Round round = 0) {
    Contribution made{.run_id = "run", .region = region, .round = round, .tokens = 100};
    made.data_begin = 100 * round;
    made.data_cursor = 100 * (round + 1);
    made.delta_norm = 1;
    made.state.fill(static_cast<std::uint8_t>(round + 1));
    for (std::size_t i = 0; i < shards; ++i) {
      inter::BlobId shard{.hash = {}, .size_bytes = 100};
      shard.hash.fill(static_cast<std::uint8_t>(region.front()));
      shard.hash[0] = static_cast<std::uint8_t>(i);
      shard.hash[1] = static_cast<std::uint8_t>(round);
      made.shards.push_back(shard);
    }
    made.payload = whole_of(made.shards);
    if (shards == 0) made.payload = {.hash = made.state, .size_bytes = 500};
    if (shards == 0) made.payload.hash[0] = static_cast<std::uint8_t>(region.front());
    return made;
  }
  // All that they are to hold of it.
  static void hold(Decider& decider, const Contribution& made,
                   const std::vector<std::string>& holders) {
    for (const std::string& holder : holders)
      decider.add(made, holder, decider.summers().bytes_for(holder, made), Time{0});
  }
  // It says so first, or nobody would be believed.
  void make_anew(const std::string& region) {
    Contribution again = made_in(region, 5);
    again.shards[2].hash[5] ^= 1;
    again.payload = whole_of(again.shards);
    hold(sharded_, again, {region});
    hold(sharded_, again, kFive);
  }
  static void hold_all(Decider& decider, std::size_t shards, Round round = 0) {
    for (const std::string& region : kFive) hold(decider, made_in(region, shards, round), kFive);
  }
  static std::optional<CommitRecord> decide(Decider& decider) {
    return decider.decide(kSteps, Time{0}).record;
  }
  // Nothing is decided before the deadline.
  static std::optional<CommitRecord> decide_late(Decider& decider) {
    EXPECT_FALSE(decide(decider));
    return decider.decide(kSteps, decider.deadline().value()).record;
  }
  static std::vector<std::string> listed(const std::optional<CommitRecord>& record) {
    std::vector<std::string> regions;
    if (!record) return {"nothing is decided"};
    for (const Participant& one : record->participants) regions.push_back(one.region);
    return regions;
  }

  Decider sharded_ = decider(ExchangeKind::sharded);
};

// ---- What is listed ----

TEST_F(ShardedDeciderTest, ListsWhatIsWithTheSummersOfEachShard) {
  EXPECT_TRUE(sharded_.sharded());
  for (const char* region : {"a", "b", "c", "d"}) hold(sharded_, made_in(region, 5), kFive);
  const Contribution last = made_in("e", 5);
  hold(sharded_, last, {"e", "a", "c", "d"});
  EXPECT_FALSE(decide(sharded_)) << "b lacks its shards of e's";
  sharded_.add(last, "b", 199, Time{0});
  EXPECT_FALSE(decide(sharded_));
  sharded_.add(last, "b", 200, Time{0});
  EXPECT_THAT(listed(decide(sharded_)), ElementsAre("a", "b", "c", "d", "e"));
}

TEST_F(ShardedDeciderTest, ASummerOutOfReachIsNotWaitedFor) {
  for (const std::string& region : kFive)
    hold(sharded_, made_in(region, 5), {region, "a", "b", "d", "e"});
  hold(sharded_, made_in("c", 5), {"c"});
  EXPECT_FALSE(decide(sharded_));
  sharded_.set_up("c", false);
  EXPECT_THAT(listed(decide(sharded_)), ElementsAre("a", "b", "c", "d", "e"));
}

// b and c are to sum shard 1.
TEST_F(ShardedDeciderTest, WithNoSummerWithinReachTheContributorItselfSuppliesTheShard) {
  for (const std::string& region : kFive) hold(sharded_, made_in(region, 5), kFive);
  sharded_.set_up("b", false);
  sharded_.set_up("c", false);
  for (const char* region : {"b", "c"}) sharded_.add(made_in(region, 5), region, 0, Time{0});
  EXPECT_THAT(listed(decide_late(sharded_)), ElementsAre("a", "d", "e"));
}

TEST_F(ShardedDeciderTest, NothingIsWaitedForIfNoSummerOfAShardIsWithinReach) {
  for (const char* region : {"a", "d", "e"}) hold(sharded_, made_in(region, 5), kFive);
  for (const char* region : {"b", "c"}) {
    Contribution out = made_in(region, 0);
    out.sits_out = true;
    out.payload = {};
    sharded_.add(out, region, 0, Time{0});
    sharded_.set_up(region, false);
  }
  EXPECT_THAT(listed(decide(sharded_)), ElementsAre("a", "d", "e"));
}

TEST_F(ShardedDeciderTest, AContributorThatLostItsPayloadSuppliesNothing) {
  for (const std::string& region : kFive) hold(sharded_, made_in(region, 5), kFive);
  sharded_.set_up("b", false);
  sharded_.set_up("c", false);
  decide(sharded_);
  sharded_.add(made_in("e", 5), "e", 200, Time{0});
  EXPECT_EQ(listed(sharded_.decide(kSteps, sharded_.deadline().value()).record),
            std::vector<std::string>{"nothing is decided"})
      << "a and d alone are too few";
}

// e is gone, but four of its shards are each with one of those that sum them: a, b, d.
TEST_F(ShardedDeciderTest, AfterTheDeadlineOneSummerOfEachShardIsEnough) {
  for (const char* region : {"a", "b", "c", "d"}) hold(sharded_, made_in(region, 5), kFive);
  hold(sharded_, made_in("e", 5), {"e", "a", "b", "d"});
  sharded_.set_up("e", false);
  EXPECT_THAT(listed(decide_late(sharded_)), ElementsAre("a", "b", "c", "d", "e"));
}

TEST_F(ShardedDeciderTest, AShardThatNobodyWithinReachHasKeepsItsContributionOut) {
  for (const char* region : {"a", "b", "c", "d"}) hold(sharded_, made_in(region, 5), kFive);
  hold(sharded_, made_in("e", 5), {"e", "a", "d"});  // shard 1 is b's and c's
  sharded_.set_up("e", false);
  EXPECT_THAT(listed(decide_late(sharded_)), ElementsAre("a", "b", "c", "d"));
}

TEST_F(ShardedDeciderTest, AfterTheDeadlineAContributorWithinReachIsEnough) {
  for (const char* region : {"a", "b", "c", "d"}) hold(sharded_, made_in(region, 5), kFive);
  hold(sharded_, made_in("e", 5), {"e"});
  EXPECT_THAT(listed(decide_late(sharded_)), ElementsAre("a", "b", "c", "d", "e"));
}

// Nothing may come late, so what moves is waited for, although the run would list it later.
TEST_F(ShardedDeciderTest, WhatIsStillOnItsWayPutsTheDeadlineOff) {
  CommitRecord before = last(0, true);
  before.next_grace_ms = 5'000;
  Decider decider = this->decider(ExchangeKind::sharded, &before);
  for (const char* region : {"a", "b", "c", "d"}) hold(decider, made_in(region, 5, 1), kFive);
  const Contribution slow = made_in("e", 5, 1);
  hold(decider, slow, {"e"});
  EXPECT_FALSE(decide(decider));
  const Time deadline = decider.deadline().value();
  decider.add(slow, "a", 50, deadline);
  EXPECT_FALSE(decider.decide(kSteps, deadline).record);
  EXPECT_GT(decider.deadline().value(), deadline);
}

TEST_F(ShardedDeciderTest, WhatIsMadeAnewWhileADraftListsItIsLeftOut) {
  hold_all(sharded_, 5);
  const CommitRecord draft = decide(sharded_).value();
  make_anew("e");
  sharded_.leave_out_changed(draft);
  EXPECT_THAT(listed(decide_late(sharded_)), ElementsAre("a", "b", "c", "d"));
}

// A liar cannot stop a round for ever by that, and neither can two honest regions.
TEST_F(ShardedDeciderTest, WhatIsMadeAnewIsListedAllTheSameIfThereWouldBeTooFew) {
  hold_all(sharded_, 5);
  const CommitRecord draft = decide(sharded_).value();
  for (const char* region : {"c", "d", "e"}) make_anew(region);
  sharded_.leave_out_changed(draft);
  EXPECT_THAT(listed(decide(sharded_)), ElementsAre("a", "b", "c", "d", "e"));
}

TEST_F(ShardedDeciderTest, AfterADraftThatLedNowhereTwoRegionsMustHaveEachShard) {
  for (const char* region : {"a", "b", "c", "d"}) hold(sharded_, made_in(region, 5), kFive);
  hold(sharded_, made_in("e", 5), {"e", "a", "b", "d"});
  sharded_.set_up("e", false);
  sharded_.be_strict();
  EXPECT_THAT(listed(decide_late(sharded_)), ElementsAre("a", "b", "c", "d"));
}

// e and a sum shard 4 of e's.
TEST_F(ShardedDeciderTest, ThenAContributorThatSumsIsOneRegionAndNotTwo) {
  for (const char* region : {"a", "b", "c", "d"}) hold(sharded_, made_in(region, 5), kFive);
  hold(sharded_, made_in("e", 5), {"e", "b", "c", "d"});
  sharded_.be_strict();
  EXPECT_THAT(listed(decide_late(sharded_)), ElementsAre("a", "b", "c", "d"));
}

TEST_F(ShardedDeciderTest, ALinkThatComesBackLeavesTheDraft) {
  hold_all(sharded_, 5);
  const CommitRecord draft = decide(sharded_).value();
  sharded_.set_up("d", false);
  sharded_.set_up("d", true);
  EXPECT_TRUE(sharded_.can_supply(draft)) << "d has not said anything anew";
}

TEST_F(ShardedDeciderTest, ARegionWithinReachSpeaksForItself) {
  for (const char* region : {"a", "b", "c", "d"}) hold(sharded_, made_in(region, 5), kFive);
  hold(sharded_, made_in("e", 5), {"a", "b", "c", "d"});
  EXPECT_THAT(listed(decide_late(sharded_)), ElementsAre("a", "b", "c", "d"));
}

TEST_F(ShardedDeciderTest, DoesNotListWhatComesWhole) {
  for (const char* region : {"a", "b", "c", "d"}) hold(sharded_, made_in(region, 5), kFive);
  const Contribution whole = made_in("e", 0);
  for (const std::string& holder : kFive) sharded_.add(whole, holder, 500, Time{0});
  EXPECT_THAT(listed(decide_late(sharded_)), ElementsAre("a", "b", "c", "d"));
}

TEST_F(ShardedDeciderTest, DoesNotListWhatComesWholeEvenIfMostDo) {
  for (const char* region : {"a", "b"}) hold(sharded_, made_in(region, 5), kFive);
  for (const char* region : {"c", "d", "e"}) hold(sharded_, made_in(region, 0), kFive);
  EXPECT_FALSE(decide(sharded_));
  EXPECT_FALSE(sharded_.deadline()) << "two are too few";
}

TEST_F(ShardedDeciderTest, DoesNotListWhatIsCutOtherwiseThanMost) {
  for (const char* region : {"a", "b", "d", "e"}) hold(sharded_, made_in(region, 5), kFive);
  hold(sharded_, made_in("c", 4), kFive);
  EXPECT_THAT(listed(decide_late(sharded_)), ElementsAre("a", "b", "d", "e"));
}

TEST_F(ShardedDeciderTest, DoesNotListWhatIsLateOrBesideTheRound) {
  const CommitRecord before = last(0, true);
  Decider decider = this->decider(ExchangeKind::sharded, &before);
  for (const char* region : {"a", "b", "c", "d"}) hold(decider, made_in(region, 5, 1), kFive);
  Contribution late = made_in("e", 5, 0), beside = made_in("e", 5, 1);
  beside.part = 1;
  beside.payload.hash[0] ^= 1;
  for (const Contribution& one : {late, beside})
    for (const std::string& holder : kFive) decider.add(one, holder, 500, Time{0});
  EXPECT_THAT(listed(decide_late(decider)), ElementsAre("a", "b", "c", "d"));
}

TEST_F(ShardedDeciderTest, AFullRoundDoesNotListWhatComesInShards) {
  Decider full = decider(ExchangeKind::full);
  for (const char* region : {"a", "b", "c", "d"}) hold(full, made_in(region, 0), kFive);
  hold(full, made_in("e", 5), kFive);
  EXPECT_THAT(listed(decide_late(full)), ElementsAre("a", "b", "c", "d"));
}

TEST_F(ShardedDeciderTest, SaysHowManyHoldTheirShards) {
  for (const char* region : {"a", "b", "c", "d"}) hold(sharded_, made_in(region, 5), kFive);
  hold(sharded_, made_in("e", 5), {"e", "a", "b", "d"});
  decide(sharded_);
  EXPECT_THAT(sharded_.waiting_for(Time{0}),
              HasSubstr("e (3 of 4 other regions hold their shards of its payload) for round 0"));
}

// ---- Which rounds are sharded, and what a record of one says ----

TEST_F(ShardedDeciderTest, TheNextRoundIsShardedAsItIsConfigured) {
  for (const bool now_sharded : {false, true}) {
    const CommitRecord before = last(0, now_sharded);
    for (const auto kind : {ExchangeKind::full, ExchangeKind::sharded}) {
      Decider decider = this->decider(kind, &before);
      EXPECT_EQ(decider.sharded(), now_sharded);
      hold_all(decider, now_sharded ? 5 : 0, 1);
      EXPECT_EQ(decide(decider).value().next_sharded, kind == ExchangeKind::sharded);
    }
  }
}

TEST_F(ShardedDeciderTest, AutomaticallyTheNextRoundIsShardedFromFiveFreshContributionsOn) {
  Decider five = decider(ExchangeKind::automatic);
  EXPECT_FALSE(five.sharded());
  hold_all(five, 0);
  EXPECT_TRUE(decide(five).value().next_sharded);
  Decider four = decider(ExchangeKind::automatic);
  for (const char* region : {"a", "b", "c", "d"}) hold(four, made_in(region, 0), kFive);
  EXPECT_FALSE(decide_late(four).value().next_sharded);
}

TEST_F(ShardedDeciderTest, AutomaticallyALateContributionCountsForNothing) {
  const CommitRecord before = last(0, false);
  Decider decider = this->decider(ExchangeKind::automatic, &before);
  for (const char* region : {"a", "b", "c", "d"}) hold(decider, made_in(region, 0, 1), kFive);
  hold(decider, made_in("e", 0, 0), kFive);
  const auto record = decide_late(decider);
  EXPECT_THAT(listed(record), ElementsAre("a", "b", "c", "d", "e"));
  EXPECT_FALSE(record.value().next_sharded);
}

TEST_F(ShardedDeciderTest, AutomaticallyTooFewEndTheShardedRounds) {
  const CommitRecord before = last(0, true);
  Decider decider = this->decider(ExchangeKind::automatic, &before);
  EXPECT_TRUE(decider.sharded());
  for (const char* region : {"a", "b", "c", "d"}) hold(decider, made_in(region, 5, 1), kFive);
  EXPECT_FALSE(decide_late(decider).value().next_sharded);
}

// Only where a full round follows a full round can a contribution be listed late.
TEST_F(ShardedDeciderTest, WhatIsNotListedExpiresAtOnceAroundShardedRounds) {
  for (const bool now_sharded : {false, true}) {
    for (const bool next_sharded : {false, true}) {
      const CommitRecord before = last(4, now_sharded);
      Decider decider =
          this->decider(next_sharded ? ExchangeKind::sharded : ExchangeKind::full, &before);
      hold_all(decider, now_sharded ? 5 : 0, 5);
      EXPECT_EQ(decide(decider).value().expired_before, now_sharded || next_sharded ? 6U : 4U)
          << now_sharded << next_sharded;
    }
  }
}

// ---- Whether a draft still stands ----

TEST_F(ShardedDeciderTest, ADraftStandsWhileAllOfItCanBeHad) {
  hold_all(sharded_, 5);
  const CommitRecord draft = decide(sharded_).value();
  EXPECT_TRUE(sharded_.can_supply(draft));
  sharded_.set_up("b", false);
  EXPECT_TRUE(sharded_.can_supply(draft)) << "c has shard 1, a shard 0";
  sharded_.set_up("c", false);
  EXPECT_FALSE(sharded_.can_supply(draft)) << "nobody has shard 1 of b's";
  CommitRecord of_others = draft;
  std::erase_if(of_others.participants,
                [](const Participant& one) { return one.region == "b" || one.region == "c"; });
  EXPECT_TRUE(sharded_.can_supply(of_others)) << "they have it themselves";
}

TEST_F(ShardedDeciderTest, ADraftFallsWithADiskThatLostWhatItLists) {
  hold_all(sharded_, 5);
  const CommitRecord draft = decide(sharded_).value();
  sharded_.set_up("d", false);
  ASSERT_TRUE(sharded_.can_supply(draft));
  sharded_.add(made_in("d", 5), "b", 0, Time{0});
  EXPECT_TRUE(sharded_.can_supply(draft)) << "a and c have theirs";
  sharded_.add(made_in("d", 5), "c", 0, Time{0});
  EXPECT_FALSE(sharded_.can_supply(draft)) << "shard 1 is gone";
}

TEST_F(ShardedDeciderTest, ADraftFallsWithAContributionThatWasMadeAgain) {
  hold_all(sharded_, 5);
  const CommitRecord draft = decide(sharded_).value();
  make_anew("e");
  EXPECT_FALSE(sharded_.can_supply(draft));
}

TEST_F(ShardedDeciderTest, ADraftListsEnoughForTheMembersThatThereAre) {
  CommitRecord draft = last(0, true);
  draft.participants.resize(3);
  EXPECT_TRUE(sharded_.lists_enough(draft));
  draft.participants.resize(2);
  EXPECT_FALSE(sharded_.lists_enough(draft));
  sharded_.set_membership(without(without(five(), "d"), "e"));
  EXPECT_TRUE(sharded_.lists_enough(draft));
}

}  // namespace
}  // namespace causeway::diloco
