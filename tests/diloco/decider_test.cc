#include "diloco/decider.h"

#include <gtest/gtest.h>

#include <chrono>

namespace causeway::diloco {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class DeciderTest : public ::testing::Test {
 protected:
  static ProtocolOptions options(std::size_t contributions_min) {
    return {.self = "a",
            .roster = {"a", "b", "c"},
            .decider = "a",
            .rounds = 100,
            .k = 4,
            .contributions_min = contributions_min,
            .grace_min = seconds{1},
            .grace_max = seconds{30}};
  }

  DeciderTest() : decider_(options(2), nullptr) {
    for (const char* region : {"b", "c"}) decider_.set_up(region, true);
  }

  static Contribution contribution(const std::string& region, std::uint64_t tokens = 100,
                                   std::uint8_t state = 1) {
    Contribution made{.run_id = "run", .region = region, .tokens = tokens, .data_cursor = tokens};
    made.state.fill(state);
    made.payload.size_bytes = 1000;
    made.payload.hash.fill(static_cast<std::uint8_t>(region.front()));
    return made;
  }
  // Contributed, and held by its region and by one other.
  void give(const Contribution& made, Time now = Time{0}) {
    decider_.add(made, made.region, 1000, now);
    decider_.add(made, made.region == "a" ? "b" : "a", 1000, now);
  }

  Decider decider_;
};

TEST_F(DeciderTest, CommitsAtOnceWhenEverybodyIsThere) {
  give(contribution("c", 100));
  give(contribution("a", 100));
  EXPECT_FALSE(decider_.decide(Time{0}).record);
  give(contribution("b", 200));
  const auto record = decider_.decide(Time{0}).record;
  ASSERT_TRUE(record);
  ASSERT_EQ(record->participants.size(), 3);
  EXPECT_EQ(record->participants[0].region, "a");
  EXPECT_EQ(record->participants[0].weight, 0.25F);
  EXPECT_EQ(record->participants[1].weight, 0.5F);
  EXPECT_EQ(record->participants[2].data_cursor, 100);
  EXPECT_EQ(record->state, contribution("a").state);
  EXPECT_EQ(record->next_k, 4);
}

TEST_F(DeciderTest, DoesNotListAPayloadThatOnlyItsContributorHolds) {
  give(contribution("a"));
  give(contribution("b"));
  decider_.add(contribution("c"), "c", 1000, Time{0});
  EXPECT_FALSE(decider_.decide(Time{0}).record);
  decider_.add(contribution("c"), "b", 999, Time{0});
  EXPECT_FALSE(decider_.decide(Time{0}).record);
  decider_.add(contribution("c"), "b", 1000, Time{0});
  EXPECT_TRUE(decider_.decide(Time{0}).record);
}

TEST_F(DeciderTest, CommitsWithoutALateRegionWhenTheGraceIsOver) {
  give(contribution("a"));
  give(contribution("b"));
  EXPECT_FALSE(decider_.decide(Time{0}).record);
  const Time deadline = decider_.deadline().value();
  EXPECT_EQ(deadline, seconds{30});  // nothing measured yet: a minute, within the limits
  EXPECT_FALSE(decider_.decide(deadline - milliseconds{1}).record);
  const auto record = decider_.decide(deadline).record;
  ASSERT_TRUE(record);
  EXPECT_EQ(record->participants.size(), 2);
}

TEST_F(DeciderTest, WaitsWhileBytesArriveUpToTheLimit) {
  give(contribution("a"));
  give(contribution("b"));
  decider_.decide(Time{0});
  // A measured grace of one second.
  give(contribution("c"));
  decider_.open_next(decider_.decide(Time{0}).record.value());
  Contribution a = contribution("a"), b = contribution("b"), c = contribution("c");
  for (Contribution* made : {&a, &b, &c}) made->round = 1;
  give(a);
  give(b);
  decider_.decide(Time{0});
  EXPECT_EQ(decider_.deadline(), seconds{1});
  std::uint64_t bytes = 0;
  for (Time now{0}; now < seconds{35}; now += milliseconds{500}) {
    decider_.add(c, "b", bytes += 10, now);
    const bool committed = decider_.decide(now).record.has_value();
    EXPECT_EQ(committed, now >= seconds{30}) << now.count();
  }
}

TEST_F(DeciderTest, NeverCommitsWithTooFewContributions) {
  give(contribution("a"));
  decider_.set_up("b", false);
  decider_.set_up("c", false);
  EXPECT_FALSE(decider_.decide(seconds{100'000}).record);
  EXPECT_FALSE(decider_.deadline());
}

TEST_F(DeciderTest, LeavesOutTheContributionOfAnotherState) {
  give(contribution("a", 100, 1));
  give(contribution("b", 100, 2));
  give(contribution("c", 100, 1));
  const Decider::Verdict verdict = decider_.decide(Time{0});
  EXPECT_EQ(verdict.diverged, std::vector<std::string>{"b"});
  ASSERT_TRUE(verdict.record);
  EXPECT_EQ(verdict.record->participants.size(), 2);
}

TEST_F(DeciderTest, OnATieItsOwnStateIsTheAgreedOne) {
  decider_.set_applied("a", Applied{.version = 0, .state = contribution("a", 1, 9).state});
  give(contribution("a", 100, 9));
  give(contribution("b", 100, 2));
  EXPECT_EQ(decider_.decide(seconds{60}).diverged, std::vector<std::string>{});  // opens the grace
  const Decider::Verdict verdict = decider_.decide(seconds{90});
  EXPECT_EQ(verdict.diverged, std::vector<std::string>{"b"});
  EXPECT_FALSE(verdict.record);  // one contribution is not enough
}

TEST_F(DeciderTest, SaysWhoIsWaitedForAndHowFarItGot) {
  give(contribution("a"));
  give(contribution("b"));
  decider_.decide(Time{0});
  EXPECT_EQ(decider_.waiting_for(seconds{1}),
            "c (no contribution yet) for round 0, at most 29 s more");
  decider_.add(contribution("c"), "a", 400, seconds{1});
  decider_.decide(seconds{1});
  EXPECT_EQ(decider_.waiting_for(seconds{1}),
            "c (400 of 1000 payload bytes at 0 other regions) for round 0, at most 29 s more");
}

TEST(Grace, FollowsLatenessWithinItsLimits) {
  Grace grace(seconds{1}, seconds{30});
  EXPECT_EQ(grace.length(), seconds{30});
  for (int i = 0; i < 50; ++i) grace.add(seconds{4});
  EXPECT_GE(grace.length(), seconds{4});
  EXPECT_LE(grace.length(), seconds{5});
  for (int i = 0; i < 100; ++i) grace.add(Time{0});
  EXPECT_EQ(grace.length(), seconds{1});
  grace.add(std::chrono::hours{1});
  EXPECT_EQ(grace.length(), seconds{30});
}

}  // namespace
}  // namespace causeway::diloco
