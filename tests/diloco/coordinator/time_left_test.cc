#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diloco/coordinator/status_files.h"
#include "tests/support/temporary_directory.h"

namespace causeway::diloco {
namespace {

TEST(TimeLeft, IsNotKnownBeforeTheSecondRoundAndAfterTheLast) {
  TimeLeft left;
  EXPECT_FALSE(left.seconds(1000));
  left.add(100, 20, false);
  EXPECT_FALSE(left.seconds(1000));
  left.add(110, 40, false);
  EXPECT_DOUBLE_EQ(left.seconds(1000).value_or(0), 480);
  EXPECT_FALSE(left.seconds(40));
}

TEST(TimeLeft, IsJudgedByTheNewestRounds) {
  TimeLeft left;
  double time_s = 0;
  for (std::uint64_t round = 0; round < 20; ++round) left.add(time_s += 1000, 20 * round, false);
  for (std::uint64_t round = 20; round < 40; ++round) left.add(time_s += 1, 20 * round, false);
  EXPECT_DOUBLE_EQ(left.seconds(20 * 39 + 2000).value_or(0), 100);
}

// It would seem to be over soon, and later and later with each round after that.
TEST(TimeLeft, RoundsThatARegionCatchesUpWithSayNothing) {
  TimeLeft left;
  left.add(0, 0, false);
  left.add(10, 20, false);
  double time_s = 500;
  for (std::uint64_t round = 2; round < 100; ++round) left.add(time_s += 0.01, 20 * round, true);
  left.add(time_s += 10, 20 * 100, false);
  EXPECT_NEAR(left.seconds(20 * 200).value_or(0), 1000, 1e-6);
}

// Its worker has not said where it is since it attached: 0 of 2,000,000 steps would be over soon.
TEST(TimeLeft, ARoundThatBeganBeforeTheWorkerAttachedCountsByTheStepsOfTheRun) {
  const test::TemporaryDirectory directory;
  StatusFiles files(directory.path(), "east");
  RegionStatus status;
  status.steps = 2'000'000;
  status.round = 100;
  for (Round round = 100; round < 103; ++round) {
    AppliedRound applied;
    applied.steps = 20;
    applied.steps_so_far = 20 * (round + 1);
    applied.record.round = round;
    status.round = round;
    const std::string line = files.add_round(applied, status);
    EXPECT_NE(line.find("\"step\":" + std::to_string(20 * (round + 1))), std::string::npos) << line;
  }
}

// It goes on while payloads travel, or is cut off.
TEST(TimeLeft, ARoundsLineSaysWhatTheRunHasTakenBesideTheRegionThatIsAhead) {
  const test::TemporaryDirectory directory;
  StatusFiles files(directory.path(), "east");
  RegionStatus status;
  status.progress.set_phase("compute");
  status.progress.set_step(40);
  AppliedRound applied;
  applied.steps_so_far = 20;
  const std::string line = files.add_round(applied, status);
  EXPECT_THAT(line, testing::HasSubstr("\"step\":40,"));
  EXPECT_THAT(line, testing::HasSubstr("\"steps_so_far\":20,"));
}

// Between two rounds of a second somebody sets the host's date by hours: the run takes no longer.
TEST(TimeLeft, IsCountedByAClockThatNobodySets) {
  const test::TemporaryDirectory directory;
  StatusFiles files(directory.path(), "east");
  RegionStatus status;
  status.steps = 1000;
  std::string line;
  for (Round round = 0; round < 2; ++round) {
    AppliedRound applied;
    applied.record.round = status.round = round;
    applied.steps_so_far = 20 * (round + 1);
    const StatusFiles::Clock::time_point at(std::chrono::seconds(10 * round));
    line = files.add_round(applied, status, at);
  }
  EXPECT_THAT(line, testing::HasSubstr("\"left_s\":480.0,"));
}

}  // namespace
}  // namespace causeway::diloco
