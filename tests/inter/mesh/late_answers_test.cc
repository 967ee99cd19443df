#include "inter/mesh/late_answers.h"

#include <gtest/gtest.h>

namespace causeway::inter {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class LateAnswersTest : public testing::Test {
 protected:
  // Heartbeats for so long, each with this delay.
  void pass(seconds time, milliseconds delay, milliseconds other_way = {}) {
    for (const auto end = now_ + time; now_ < end; now_ += milliseconds(500))
      answers_.look(delay, now_, other_way);
  }
  // Until the answers are well; then the link is made anew.
  seconds until_well() {
    const auto begin = now_;
    while (!answers_.are_well(now_)) pass(seconds(1), milliseconds(100));
    answers_.on_new_link(now_);
    return std::chrono::duration_cast<seconds>(now_ - begin);
  }
  void become_late() {
    pass(seconds(5), seconds(3));
    ASSERT_TRUE(answers_.are_late(now_));
    answers_.avoid(now_);
  }

  LateAnswers::Clock::time_point now_{std::chrono::hours(1)};
  LateAnswers answers_{seconds(2)};
};

// Detours that are lost at once take time from the link: not all of it.
TEST_F(LateAnswersTest, AfterADetourTheyAreJudgedAnew) {
  become_late();
  answers_.judge_anew();
  EXPECT_FALSE(answers_.are_late(now_));
  pass(seconds(3), seconds(3));
  EXPECT_FALSE(answers_.are_late(now_));
  pass(seconds(2), seconds(3));
  EXPECT_TRUE(answers_.are_late(now_));
}

// Its own process had no time to read them.
TEST_F(LateAnswersTest, WhoLooksLateItselfTakesNothingForLate) {
  for (int i = 0; i < 10; ++i, now_ += milliseconds(2500)) answers_.look(seconds(3), now_);
  EXPECT_FALSE(answers_.are_late(now_));
}

TEST_F(LateAnswersTest, TheyAreLateAfterAWhile) {
  pass(seconds(100), milliseconds(1900));
  EXPECT_FALSE(answers_.are_late(now_));
  pass(seconds(3), seconds(3));
  EXPECT_FALSE(answers_.are_late(now_));
  pass(seconds(2), seconds(3));
  EXPECT_TRUE(answers_.are_late(now_));
}

TEST_F(LateAnswersTest, WhoWasPausedIsNotLateForLong) {
  pass(seconds(3), seconds(3));
  pass(seconds(1), milliseconds(100));
  pass(seconds(3), seconds(3));
  EXPECT_FALSE(answers_.are_late(now_));
}

TEST_F(LateAnswersTest, TheyMustBeMuchBetterToBeWell) {
  become_late();
  pass(minutes(10), milliseconds(1500));
  EXPECT_FALSE(answers_.are_well(now_));
  pass(seconds(5), milliseconds(900));
  EXPECT_FALSE(answers_.are_well(now_)) << "not for long enough";
  pass(seconds(10), milliseconds(900));
  EXPECT_TRUE(answers_.are_well(now_));
}

TEST_F(LateAnswersTest, LateOnesAreWellWhereTheOtherWayIsMuchWorse) {
  become_late();
  pass(minutes(1), seconds(3), seconds(5));
  EXPECT_FALSE(answers_.are_well(now_)) << "not much";
  pass(seconds(5), seconds(3), seconds(7));
  EXPECT_FALSE(answers_.are_well(now_)) << "not for long enough";
  pass(seconds(10), seconds(3), seconds(7));
  EXPECT_TRUE(answers_.are_well(now_));
  answers_.on_new_link(now_);
  become_late();
  pass(seconds(15), seconds(3), seconds(7));
  EXPECT_FALSE(answers_.are_well(now_)) << "twice as long";
}

TEST_F(LateAnswersTest, AnotherWayInsteadOfOneThatWasLostIsNotHeldAgainstTheLink) {
  become_late();
  for (int i = 0; i < 5; ++i) answers_.avoid(now_);
  EXPECT_LE(until_well(), seconds(12));
}

TEST_F(LateAnswersTest, ALinkThatIsLateAgainAndAgainMustBeWellForLonger) {
  seconds last{0};
  for (int i = 0; i < 5; ++i) {
    become_late();
    const seconds took = until_well();
    EXPECT_GE(took, 2 * last - seconds(3));
    last = took;
  }
  EXPECT_GE(last, seconds(150));
  for (int i = 0; i < 5; ++i) {
    become_late();
    last = until_well();
  }
  EXPECT_LE(last, minutes(10) + seconds(2)) << "there is an end to it";
  pass(minutes(11), milliseconds(100));
  become_late();
  EXPECT_LE(until_well(), seconds(12)) << "it was well for long";
}

}  // namespace
}  // namespace causeway::inter
