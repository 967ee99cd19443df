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

TEST(ChaseTest, TakesNoStepBackForAnApply) {
  Chase chase(8);
  chase.look(30, 50);
  chase.look(10, 50);  // the worker went on from an older state
  chase.look(17, 90);
  EXPECT_FALSE(chase.in_vain());
  chase.look(18, 90);
  EXPECT_TRUE(chase.in_vain());
}

}  // namespace
}  // namespace causeway::diloco
