#include "diloco/round/decider.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/diloco/round/decider_fixture.h"

namespace causeway::diloco {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(DeciderTest, CommitsAtOnceWhenEverybodyIsThere) {
  give(contribution("c", 100));
  give(contribution("a", 100));
  EXPECT_FALSE(decide(Time{0}).record);
  give(contribution("b", 200));
  const auto record = decide(Time{0}).record;
  ASSERT_TRUE(record);
  ASSERT_EQ(record->participants.size(), 3);
  EXPECT_EQ(record->participants[0].region, "a");
  EXPECT_EQ(record->participants[0].weight, 0.25F);
  EXPECT_EQ(record->participants[1].weight, 0.5F);
  EXPECT_EQ(record->participants[2].data_cursor, 100);
  EXPECT_EQ(record->state, contribution("a").state);
  EXPECT_EQ(record->next_k, 4);
}

// A record that one member fills would be more than a worker takes, and weigh as it likes.
TEST_F(DeciderTest, ListsSoMuchLateWorkOfOneRegionAtATime) {
  ProtocolOptions with_staleness = options(2);
  with_staleness.staleness_max = 2;
  decider_ = Decider(with_staleness, membership(), nullptr);
  for (const char* region : {"b", "c"}) decider_.set_up(region, true);
  for (Round round = 0; round < 3; ++round) {
    for (const char* region : {"a", "b", "c"}) {
      Contribution made = contribution(region);
      made.round = round;
      made.data_begin = 100 * round;
      made.data_cursor = 100 * round + 1;
      give(made);
      for (std::uint32_t part = 1; part <= 16 && region[0] == 'c'; ++part) {
        made.part = part;
        made.data_begin = made.data_cursor++;
        if (round == 2) give(made);
      }
    }
    if (round == 2) break;
    const auto record = decide(Time{0}).record;
    ASSERT_TRUE(record);
    decider_.open_next(*record);
  }
  const auto record = decide(Time{0}).record;
  ASSERT_TRUE(record);
  EXPECT_EQ(record->participants.size(), 2 + 8);
  decider_.open_next(*record);
  for (const char* region : {"a", "b", "c"}) {
    Contribution made = contribution(region);
    made.round = 3;
    made.data_begin = 300;
    made.data_cursor = 301;
    give(made);
  }
  const auto next = decide(Time{0}).record;
  ASSERT_TRUE(next);
  EXPECT_EQ(next->participants.size(), 3 + 8);  // its fresh work, and the next eight
}

// A disk may spoil what it had checked.
TEST_F(DeciderTest, AHolderThatLostItsCopyIsNone) {
  for (const char* region : {"a", "b", "c"}) give(contribution(region));
  decider_.add(contribution("c"), "a", 0, Time{0});
  EXPECT_FALSE(decide(Time{0}).record);
  decider_.add(contribution("c"), "a", 1000, Time{0});
  EXPECT_TRUE(decide(Time{0}).record);
}

TEST_F(DeciderTest, DoesNotListAPayloadThatOnlyItsContributorHolds) {
  give(contribution("a"));
  give(contribution("b"));
  decider_.add(contribution("c"), "c", 1000, Time{0});
  EXPECT_FALSE(decide(Time{0}).record);
  decider_.add(contribution("c"), "b", 999, Time{0});
  EXPECT_FALSE(decide(Time{0}).record);
  decider_.add(contribution("c"), "b", 1000, Time{0});
  EXPECT_TRUE(decide(Time{0}).record);
}

TEST_F(DeciderTest, CommitsWithoutALateRegionWhenTheGraceIsOver) {
  give(contribution("a"));
  give(contribution("b"));
  EXPECT_FALSE(decide(Time{0}).record);
  const Time deadline = decider_.deadline().value();
  EXPECT_EQ(deadline, seconds{30});  // nothing measured yet: a minute, within the limits
  EXPECT_FALSE(decide(deadline - milliseconds{1}).record);
  const auto record = decide(deadline).record;
  ASSERT_TRUE(record);
  EXPECT_EQ(record->participants.size(), 2);
}

TEST_F(DeciderTest, WaitsWhileBytesArriveUpToTheLimit) {
  give(contribution("a"));
  give(contribution("b"));
  decide(Time{0});
  // A measured grace of one second.
  give(contribution("c"));
  decider_.open_next(decide(Time{0}).record.value());
  Contribution a = contribution("a"), b = contribution("b"), c = contribution("c");
  for (Contribution* made : {&a, &b, &c}) {
    made->round = 1;
    made->data_begin = 100;
    made->data_cursor = 200;
  }
  give(a);
  give(b);
  decide(Time{0});
  EXPECT_EQ(decider_.deadline(), seconds{1});
  decider_.add(c, "c", 1000, Time{0});
  std::uint64_t bytes = 0;
  for (Time now{0}; now < seconds{35}; now += milliseconds{500}) {
    decider_.add(c, "b", bytes += 10, now);
    const bool committed = decide(now).record.has_value();
    EXPECT_EQ(committed, now >= seconds{30}) << now.count();
  }
}

TEST_F(DeciderTest, NeverCommitsWithTooFewContributions) {
  give(contribution("a"));
  decider_.set_up("b", false);
  decider_.set_up("c", false);
  EXPECT_FALSE(decide(seconds{100'000}).record);
  EXPECT_FALSE(decider_.deadline());
}

std::vector<std::string> regions_of(const std::vector<Contribution>& contributions) {
  std::vector<std::string> regions;
  for (const Contribution& one : contributions) regions.push_back(one.region);
  return regions;
}

TEST_F(DeciderTest, LeavesOutTheContributionOfAnotherState) {
  give(contribution("a", 100, 1));
  give(contribution("b", 100, 2));
  give(contribution("c", 100, 1));
  const Decider::Verdict verdict = decide(Time{0});
  EXPECT_EQ(regions_of(verdict.diverged), std::vector<std::string>{"b"});
  ASSERT_TRUE(verdict.record);
  EXPECT_EQ(verdict.record->participants.size(), 2);
  EXPECT_TRUE(decider_.rejects(contribution("b", 100, 2)));
}

TEST_F(DeciderTest, OnATieDoubtsEverybody) {
  give(contribution("a", 100, 9));
  give(contribution("b", 100, 2));
  EXPECT_TRUE(decide(seconds{60}).diverged.empty());  // opens the grace
  const Decider::Verdict verdict = decide(seconds{90});
  EXPECT_EQ(regions_of(verdict.diverged), (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(verdict.record);
}

TEST_F(DeciderTest, ListsALateContributionWithLessWeightAndDoesNotWaitForIt) {
  ProtocolOptions with_staleness = options(2);
  with_staleness.staleness_max = 2;
  decider_ = Decider(with_staleness, membership(), nullptr);
  for (const char* region : {"b", "c"}) decider_.set_up(region, true);
  give(contribution("a"));
  give(contribution("b"));
  decider_.add(contribution("c"), "c", 1000, Time{0});
  decider_.add(contribution("c"), "b", 400, Time{0});
  decide(Time{0});
  const auto first = decide(decider_.deadline().value()).record;
  ASSERT_TRUE(first);
  EXPECT_EQ(first->expired_before, 0);
  decider_.open_next(*first);
  Contribution a = contribution("a"), b = contribution("b");
  for (Contribution* made : {&a, &b}) {
    made->round = 1;
    made->data_begin = 100;
    made->data_cursor = 200;
  }
  give(a);
  give(b);
  decider_.add(contribution("c"), "b", 1000, Time{0});
  const auto second = decide(Time{0}).record;
  ASSERT_TRUE(second);
  ASSERT_EQ(second->participants.size(), 3);
  EXPECT_EQ(second->participants[2].round, 0);
  // c: half the liveness after one missed round, and one round stale.
  EXPECT_NEAR(second->participants[2].weight / second->participants[0].weight, 0.5 / std::sqrt(2.0),
              1e-6);
}

// c never sends what it announces.
TEST_F(DeciderTest, WaitsNoLongerForOneThatSaysToHaveComputedForYears) {
  ProtocolOptions with_staleness = options(2);
  with_staleness.staleness_max = 2;
  decider_ = Decider(with_staleness, membership(), nullptr);
  for (const char* region : {"b", "c"}) decider_.set_up(region, true);
  for (const char* region : {"a", "b"}) {
    Contribution made = contribution(region);
    made.compute_s = 8;
    give(made);
  }
  decide(Time{0});
  EXPECT_EQ(decider_.deadline(), seconds{2});
  Contribution slow = contribution("c");
  for (const auto& [said_s, waits_s] : {std::pair(16.0, 4), std::pair(9e8, 8)}) {
    slow.compute_s = said_s;
    decider_.add(slow, "c", 1000, Time{0});
    decide(Time{0});
    EXPECT_EQ(decider_.deadline(), seconds{waits_s}) << said_s;
  }
}

TEST_F(DeciderTest, ListsWhatARegionContributedBeforeItWentAway) {
  for (const char* region : {"a", "b", "c"}) give(contribution(region));
  decider_.set_up("b", false);
  const auto record = decide(Time{0}).record;
  ASSERT_TRUE(record);
  EXPECT_EQ(record->participants.size(), 3);
}

TEST_F(DeciderTest, WaitsForNoRegionThatWasRemoved) {
  give(contribution("a"));
  give(contribution("b"));
  EXPECT_FALSE(decide(Time{0}).record);
  decider_.set_membership(without(membership(), "c"));
  const auto record = decide(Time{0}).record;
  ASSERT_TRUE(record);
  EXPECT_EQ(decider_.waiting_for(Time{0}), "");
  decider_.open_next(*record);
  decider_.set_applied("c", Applied{1, record->state});
  EXPECT_EQ(decider_.waiting_for(Time{0}).find("c "), std::string::npos);
}

// Anybody may add a name.
TEST_F(DeciderTest, GivesDataToAnAddedRegionOnceItHasItsVote) {
  const auto named_in = [this](Round round) {
    for (const char* region : {"a", "b", "c"}) {
      Contribution made = contribution(region);
      made.round = round;
      made.data_begin = 100 * round;
      made.data_cursor = made.data_begin + 100;
      give(made);
    }
    const CommitRecord record = decide(Time{0}).record.value();
    decider_.open_next(record);
    std::string regions;
    for (const Standing& one : record.standings) regions += one.region;
    return regions;
  };
  EXPECT_EQ(named_in(0), "abc");
  decider_.set_membership(with(membership(), {.region = "d", .incarnation = ""}));
  EXPECT_EQ(named_in(1), "abc");
  decider_.set_membership(with(membership(), {.region = "d", .incarnation = "1"}));
  EXPECT_EQ(named_in(2), "abcd");
  decider_.set_membership(with(membership(), {.region = "d", .incarnation = ""}));
  EXPECT_EQ(named_in(3), "abcd") << "it lost its disk, and comes back";
}

TEST_F(DeciderTest, DoesNotListTheSameSamplesTwice) {
  give(contribution("a"));
  give(contribution("b"));
  Contribution again = contribution("b");
  again.part = 1;
  again.payload.hash.fill(7);
  give(again);
  decide(Time{0});
  const auto record = decide(decider_.deadline().value()).record;
  ASSERT_TRUE(record);
  EXPECT_EQ(record->participants.size(), 2);
}

TEST_F(DeciderTest, CountsARegionThatSitsOutAsHeardButDoesNotListIt) {
  give(contribution("a"));
  give(contribution("b"));
  Contribution out = contribution("c");
  out.sits_out = true;
  out.payload = {};
  decider_.add(out, "c", 0, Time{0});
  const auto record = decide(Time{0}).record;
  ASSERT_TRUE(record);
  EXPECT_EQ(record->participants.size(), 2);
  EXPECT_EQ(record->standings[2].liveness, 1);
}

TEST_F(DeciderTest, CommitsARoundThatListsNothingWhenTooFewAreLeft) {
  const auto sits_out = [this](const char* region) {
    Contribution out = contribution(region);
    out.sits_out = true;
    out.payload = {};
    decider_.add(out, region, 0, Time{0});
  };
  sits_out("a");
  EXPECT_FALSE(decide(Time{0}).record);  // two may still contribute
  give(contribution("b"));
  sits_out("c");
  const auto record = decide(Time{0}).record;
  ASSERT_TRUE(record);
  EXPECT_TRUE(record->participants.empty());
  EXPECT_TRUE(record->skip_momentum);
  EXPECT_EQ(record->run_id, contribution("b").run_id);
  decider_.open_next(*record);
  EXPECT_FALSE(decide(Time{0}).record);
}

// Steps that differ from the nominal K take the momentum of as many.
TEST_F(DeciderTest, TakesTheMomentumOfTheStepsThatWereMade) {
  ProtocolOptions options = DeciderTest::options(2);
  options.outer_momentum = 0.9;
  for (const auto& [steps, momentum] :
       {std::pair{2U, std::sqrt(0.9)}, {8U, 0.9 * 0.9}, {4U, 0.0}}) {
    decider_ = Decider(options, membership(), nullptr);
    for (const char* region : {"b", "c"}) decider_.set_up(region, true);
    for (const char* region : {"a", "b", "c"}) give(contribution(region));
    const auto record =
        decider_.decide({.k = steps, .next_k = 4, .since_exchange = steps}, Time{0}).record;
    ASSERT_TRUE(record);
    ASSERT_EQ(record->momentum.has_value(), steps != 4);  // else the configured one
    if (record->momentum) {
      EXPECT_FLOAT_EQ(*record->momentum, static_cast<float>(momentum));
    }
  }
}

TEST_F(DeciderTest, GivesSlowerRegionsFewerSteps) {
  ProtocolOptions adaptive = options(2);
  adaptive.pace = {.steps = 10000, .k = 100};
  adaptive.speed_adaptive_k = true;
  decider_ = Decider(adaptive, membership(), nullptr);
  for (const char* region : {"b", "c"}) decider_.set_up(region, true);
  for (const auto& [region, seconds_taken] :
       {std::pair("a", 10.0), std::pair("b", 20.0), std::pair("c", 40.0)}) {
    Contribution made = contribution(region);
    made.steps = 100;
    made.compute_s = seconds_taken;
    give(made);
  }
  const auto record = decider_.decide({.next_k = 100, .since_exchange = 100}, Time{0}).record;
  ASSERT_TRUE(record);
  EXPECT_EQ(record->standings[0].next_k, 100);
  EXPECT_EQ(record->standings[1].next_k, 50);
  EXPECT_EQ(record->standings[2].next_k, 25);
}

TEST_F(DeciderTest, SaysWhoIsWaitedForAndHowFarItGot) {
  give(contribution("a"));
  give(contribution("b"));
  decide(Time{0});
  EXPECT_EQ(decider_.waiting_for(seconds{1}),
            "c (no contribution yet) for round 0, at most 29 s more");
  decider_.add(contribution("c"), "a", 400, seconds{1});
  decide(seconds{1});
  EXPECT_EQ(decider_.waiting_for(seconds{1}),
            "c (no contribution yet) for round 0, at most 29 s more")
      << "it has not said so itself";
  decider_.add(contribution("c"), "c", 1000, seconds{1});
  decide(seconds{1});
  EXPECT_EQ(decider_.waiting_for(seconds{1}),
            "c (400 of 1000 payload bytes at 0 other regions) for round 0, at most 29 s more");
}

// The grace runs from when enough are known, but a round lists only what enough regions hold.
TEST_F(DeciderTest, SaysNoTimeUntilEnoughContributionsAreHeld) {
  decider_.add(contribution("a"), "a", 1000, Time{0});
  decider_.add(contribution("b"), "b", 1000, Time{0});
  decide(Time{0});
  ASSERT_TRUE(decider_.deadline());
  EXPECT_EQ(decider_.waiting_for(seconds{1}),
            "a (0 of 1000 payload bytes at 0 other regions), b (0 of 1000 payload bytes at 0 other "
            "regions), c (no contribution yet) for round 0; it needs 2 contributions and has 0");
}

// What moves when the grace is over is waited for, where it cannot be listed later.
TEST_F(DeciderTest, SaysTheLongestThatItMayWait) {
  for (const char* region : {"a", "b", "c"}) give(contribution(region));
  decider_.open_next(decide(Time{0}).record.value());
  for (const char* region : {"a", "b"}) {
    Contribution made = contribution(region);
    made.round = 1;
    made.data_begin = 100;
    made.data_cursor = 200;
    give(made);
  }
  decide(Time{0});
  EXPECT_EQ(decider_.deadline(), seconds{1});
  EXPECT_EQ(decider_.waiting_for(Time{0}),
            "c (no contribution yet) for round 1, at most 30 s more");
}

}  // namespace
}  // namespace causeway::diloco
