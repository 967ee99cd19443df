#include "diloco/round/chase.h"

#include <gtest/gtest.h>

namespace causeway::diloco {
namespace {

// The worker applies `applied` rounds while the run makes `made`, one at a time.
void go_on(Chase& chase, Round& applied, Round& version, Round applies, Round makes) {
  for (Round i = 0; i < applies; ++i) {
    chase.look(++applied, version);
    const Round made = makes * (i + 1) / applies - makes * i / applies;
    chase.look(applied, version += made);
  }
}

TEST(ChaseTest, IsInVainWhereRoundsAreMadeAsQuicklyAsTheyAreApplied) {
  Chase chase(8);
  Round applied = 10, version = 50;
  chase.look(applied, version);
  go_on(chase, applied, version, 7, 7);
  EXPECT_FALSE(chase.in_vain()) << "too soon to tell";
  go_on(chase, applied, version, 2, 2);
  EXPECT_TRUE(chase.in_vain());
}

TEST(ChaseTest, IsNotInVainWhereTheWorkerComesNearer) {
  Chase chase(8);
  Round applied = 10, version = 50;
  chase.look(applied, version);
  go_on(chase, applied, version, 16, 6);
  EXPECT_FALSE(chase.in_vain());
}

TEST(ChaseTest, FollowsHowQuicklyTheRunGoesOn) {
  Chase chase(8);
  Round applied = 10, version = 100;
  chase.look(applied, version);
  go_on(chase, applied, version, 10, 10);
  ASSERT_TRUE(chase.in_vain());
  go_on(chase, applied, version, 16, 0);
  EXPECT_FALSE(chase.in_vain());
}

TEST(ChaseTest, EndsOnceTheWorkerIsNear) {
  Chase chase(8);
  Round applied = 10, version = 50;
  chase.look(applied, version);
  go_on(chase, applied, version, 10, 10);
  ASSERT_TRUE(chase.in_vain());
  chase.look(version - 7, version);
  EXPECT_FALSE(chase.in_vain());
}

TEST(ChaseTest, BeginsAnewWithAnotherState) {
  Chase chase(8);
  Round applied = 10, version = 100;
  chase.look(applied, version);
  go_on(chase, applied, version, 8, 8);
  ASSERT_TRUE(chase.in_vain());
  chase.look(applied += 20, version);  // a snapshot
  EXPECT_FALSE(chase.in_vain());
  go_on(chase, applied, version, 5, 5);
  chase.look(applied -= 10, version);  // an older state
  go_on(chase, applied, version, 7, 7);
  EXPECT_FALSE(chase.in_vain());
  go_on(chase, applied, version, 1, 1);
  EXPECT_TRUE(chase.in_vain());
}

TEST(ChaseTest, IsNotDecidedByOnePause) {
  Chase chase(8);
  Round applied = 10, version = 50;
  chase.look(applied, version);
  go_on(chase, applied, version, 4, 0);
  chase.look(applied, version += 100);  // it hung, or many records came at once
  go_on(chase, applied, version, 12, 0);
  EXPECT_FALSE(chase.in_vain());
}

TEST(ChaseTest, TakesTwiceAsLongToJudgeAfterItBackedOff) {
  Chase chase(8);
  Round applied = 10, version = 100;
  chase.look(applied, version);
  go_on(chase, applied, version, 8, 8);
  ASSERT_TRUE(chase.in_vain());
  chase.back_off();
  EXPECT_FALSE(chase.in_vain());
  EXPECT_EQ(chase.window(), 16);
  chase.look(applied, version);
  go_on(chase, applied, version, 15, 15);
  EXPECT_FALSE(chase.in_vain());
  go_on(chase, applied, version, 1, 1);
  EXPECT_TRUE(chase.in_vain());
}

}  // namespace
}  // namespace causeway::diloco
