#include "diloco/round/chase.h"

#include <gtest/gtest.h>

namespace causeway::diloco {
namespace {

class ChaseTest : public testing::Test {
 protected:
  ChaseTest() { chase_.look(applied_, version_); }

  // The worker applies so many rounds, one at a time, while the run makes so many.
  void go_on(Round applies, Round makes) {
    for (Round i = 0; i < applies; ++i) {
      chase_.look(++applied_, version_);
      version_ += makes * (i + 1) / applies - makes * i / applies;
      chase_.look(applied_, version_);
    }
  }

  Chase chase_{8};
  Round applied_ = 10, version_ = 100;
};

TEST_F(ChaseTest, IsInVainWhereRoundsAreMadeAsQuicklyAsTheyAreApplied) {
  go_on(7, 7);
  EXPECT_FALSE(chase_.in_vain()) << "too soon to tell";
  go_on(2, 2);
  EXPECT_TRUE(chase_.in_vain());
}

TEST_F(ChaseTest, IsNotInVainWhereTheWorkerComesNearer) {
  go_on(16, 6);
  EXPECT_FALSE(chase_.in_vain());
}

TEST_F(ChaseTest, FollowsHowQuicklyTheRunGoesOn) {
  go_on(10, 10);
  ASSERT_TRUE(chase_.in_vain());
  go_on(16, 0);
  EXPECT_FALSE(chase_.in_vain());
}

TEST_F(ChaseTest, EndsOnceTheWorkerIsNear) {
  go_on(10, 10);
  ASSERT_TRUE(chase_.in_vain());
  chase_.look(applied_ + 1, applied_ + 8);
  EXPECT_FALSE(chase_.in_vain());
}

TEST_F(ChaseTest, BeginsAnewWithAnotherState) {
  go_on(8, 8);
  ASSERT_TRUE(chase_.in_vain());
  chase_.look(applied_ += 20, version_);  // a snapshot
  EXPECT_FALSE(chase_.in_vain());
  go_on(5, 5);
  chase_.look(applied_ -= 10, version_);  // an older state
  go_on(15, 15);
  EXPECT_FALSE(chase_.in_vain());
  go_on(1, 1);
  EXPECT_TRUE(chase_.in_vain());
}

// Its link carries a tenth more than the run sends. While a snapshot comes the run goes on.
TEST_F(ChaseTest, WhoComesNearerSlowlyGetsThereAfterAFewSnapshots) {
  int snapshots = 0;
  while (applied_ + 8 <= version_) {
    ASSERT_LT(version_, 2000U) << snapshots << " snapshots";
    go_on(11, 10);
    if (!chase_.in_vain()) continue;
    ++snapshots;
    chase_.look(applied_ = version_ - 18, version_);
  }
  EXPECT_LE(snapshots, 2);
  go_on(1, 100);
  go_on(8, 8);
  EXPECT_TRUE(chase_.in_vain()) << "another outage";
}

TEST_F(ChaseTest, ALinkThatCarriesTooLittleIsHelpedAgainAndAgain) {
  for (int i = 0; i < 10; ++i) {
    go_on(66, 66);
    ASSERT_TRUE(chase_.in_vain());
    chase_.look(applied_ = version_ - 70, version_);
  }
}

TEST_F(ChaseTest, IsNotDecidedByOnePause) {
  go_on(4, 0);
  chase_.look(applied_, version_ += 100);  // it hung, or many records came at once
  go_on(4, 0);
  EXPECT_FALSE(chase_.in_vain());
}

TEST_F(ChaseTest, TakesTwiceAsLongToJudgeAfterItBackedOff) {
  go_on(8, 8);
  ASSERT_TRUE(chase_.in_vain());
  chase_.back_off();
  EXPECT_FALSE(chase_.in_vain());
  chase_.look(applied_, version_);
  go_on(15, 15);
  EXPECT_FALSE(chase_.in_vain());
  go_on(1, 1);
  EXPECT_TRUE(chase_.in_vain());
}

}  // namespace
}  // namespace causeway::diloco
