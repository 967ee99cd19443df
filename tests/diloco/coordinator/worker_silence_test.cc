#include "diloco/coordinator/worker_silence.h"

#include <gtest/gtest.h>

namespace causeway::diloco {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class WorkerSilenceTest : public ::testing::Test {
 protected:
  // How often it is to be noted in that time.
  int notes_in(WorkerSilence::Clock::duration time) {
    int notes = 0;
    for (const auto end = now_ + time; now_ < end;) {
      now_ += milliseconds(250);
      notes += silence_.look(now_) ? 1 : 0;
    }
    return notes;
  }

  WorkerSilence silence_;
  WorkerSilence::Clock::time_point now_{};
};

TEST_F(WorkerSilenceTest, IsNotedOnceAfterAMinute) {
  EXPECT_EQ(notes_in(seconds(60)), 0);
  EXPECT_FALSE(silence_.is_noted());
  EXPECT_EQ(notes_in(seconds(1)), 1);
  EXPECT_TRUE(silence_.is_noted());
  EXPECT_EQ(silence_.lasts(), milliseconds(60'750));
  EXPECT_EQ(notes_in(minutes(60)), 0) << "it is the same silence";
}

TEST_F(WorkerSilenceTest, EndsWithAWord) {
  EXPECT_EQ(notes_in(seconds(59)), 0);
  EXPECT_FALSE(silence_.end()) << "nobody was told of it";
  EXPECT_EQ(notes_in(seconds(59)), 0);
  EXPECT_EQ(notes_in(seconds(2)), 1);
  EXPECT_TRUE(silence_.end());
  EXPECT_FALSE(silence_.is_noted());
  EXPECT_FALSE(silence_.end());
}

// A program of its own says nothing during a round's steps.
TEST_F(WorkerSilenceTest, IsNotNotedAgainWhereStepsTakeThatLong) {
  EXPECT_EQ(notes_in(minutes(3)), 1);
  silence_.end();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(notes_in(minutes(5)), 0);
    silence_.end();
  }
  EXPECT_EQ(notes_in(minutes(7)), 1);
}

// The coordinator hung, or its host slept: what the worker said meanwhile has not been read yet.
TEST_F(WorkerSilenceTest, DoesNotCountTheTimeInWhichNobodyListened) {
  EXPECT_EQ(notes_in(seconds(1)), 0);
  now_ += minutes(90);
  EXPECT_EQ(notes_in(seconds(50)), 0);
  silence_.end();
  now_ += minutes(90);
  EXPECT_EQ(notes_in(seconds(50)), 0);
}

}  // namespace
}  // namespace causeway::diloco
