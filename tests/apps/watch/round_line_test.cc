#include "apps/run/watch/round_line.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::run {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr diloco::Pace kPace{.steps = 1200, .k = 20};

RoundLines::Clock::time_point second(int number) {
  return RoundLines::Clock::time_point(std::chrono::seconds(number));
}

LoggedRound round_at(std::uint64_t number, double time_s) {
  return {.round = number,
          .step = 20 * (number + 1),
          .tokens = 0,
          .wan_tx_bytes = 1'000'000 * (number + 1),
          .steps_so_far = 20 * (number + 1),
          .region = "east",
          .participants = 3,
          .loss = 2.5,
          .val_loss = {},
          .tokens_per_s = 1234,
          .wait_s = 2.0 * double(number),
          .time_unix_s = time_s,
          .waited_for = "west"};
}

TEST(RoundLines, TheFirstSaysWhatIsKnownWithoutAnEarlierOne) {
  RoundLines lines(1200, kPace);
  EXPECT_EQ(lines.next(round_at(0, 100)),
            "round 1 of 60: step 20 of 1,200, loss 2.5000, 1,234 tokens/s, 3 regions");
}

TEST(RoundLines, TheNextSaysWhatItTookForWhomItWaitedAndWhatIsLeft) {
  RoundLines lines(1200, kPace);
  lines.next(round_at(0, 100), second(0));
  LoggedRound another = round_at(1, 110);
  another.val_loss = 2.75;
  another.left_s = 580;
  EXPECT_EQ(lines.next(another, second(10)),
            "round 2 of 60: step 40 of 1,200, loss 2.5000, validation loss 2.7500, 1,234 tokens/s, "
            "3 regions, took 10 s, 2.0 s of it without steps (waited most for west), sent 1.00 MB, "
            "about 9 min 40 s left");
}

TEST(RoundLines, ALossMayBeZeroOrLessAndIsLeftOutWhereItIsNotKnown) {
  RoundLines lines(1200, kPace);
  LoggedRound round = round_at(0, 100);
  for (const auto& [loss, shown] :
       {std::pair{0.0, "loss 0.0000"}, std::pair{-1.5, "loss -1.5000"}}) {
    round.loss = loss;
    EXPECT_THAT(lines.next(round), HasSubstr(shown));
  }
  round.loss = {};
  EXPECT_THAT(lines.next(round), Not(HasSubstr("loss")));
}

TEST(RoundLines, KMayHaveBeenAnotherEarlierInTheRun) {
  RoundLines lines(1200, diloco::Pace{.steps = 1200, .k = 50});
  LoggedRound round = round_at(29, 100);
  round.step = round.steps_so_far = 650;  // 30 rounds of 20 steps, then 1 of 50
  EXPECT_THAT(lines.next(round), HasSubstr("round 30 of 41: step 650 of 1,200"));
  round.round = 40;
  round.step = round.steps_so_far = 1200;
  EXPECT_THAT(lines.next(round), HasSubstr("round 41 of 41: step 1,200 of 1,200"));
}

TEST(RoundLines, RoundsWithoutStepsAreTheLast) {
  RoundLines lines(40, diloco::Pace{.steps = 40, .k = 20, .fragments = 2});
  LoggedRound round = round_at(2, 100);
  round.step = round.steps_so_far = 30;
  EXPECT_THAT(lines.next(round), HasSubstr("round 3 of 5: step 30 of 40"));
  for (const char* shown : {"round 4 of 5", "round 5 of 5"}) {
    ++round.round;
    round.step = round.steps_so_far = 40;
    EXPECT_THAT(lines.next(round), HasSubstr(shown));
  }
}

// In a variant that goes on while payloads travel.
TEST(RoundLines, ARegionThatIsAheadOfTheRoundCountsTheSameRounds) {
  RoundLines lines(1200, kPace);
  for (const std::uint64_t number : {57, 58, 59}) {
    LoggedRound round = round_at(number, 100);
    round.step = std::min<std::uint64_t>(20 * (number + 2), 1200);
    EXPECT_THAT(lines.next(round), HasSubstr("round " + std::to_string(number + 1) + " of 60"));
  }
}

TEST(RoundLines, WhereKIsChosenOnTheWayNobodyKnowsHowManyRoundsThereWillBe) {
  RoundLines lines(1200, std::nullopt);
  EXPECT_THAT(lines.next(round_at(0, 100)), HasSubstr("round 1: step 20 of 1,200"));
}

// Somebody set the host's date ten hours forward.
TEST(RoundLines, WhatARoundTookDoesNotFollowTheDate) {
  RoundLines lines(1200, kPace);
  lines.next(round_at(0, 100), second(0));
  EXPECT_THAT(lines.next(round_at(1, 36'110), second(10)), HasSubstr("took 10 s"));
  EXPECT_THAT(lines.next(round_at(2, 120), second(30)), HasSubstr("took 20 s"));
}

TEST(RoundLines, CountersThatBeginAnewAndTheLastRoundGiveNoNonsense) {
  RoundLines lines(40, diloco::Pace{.steps = 40, .k = 20});
  lines.next(round_at(0, 100), second(0));
  LoggedRound last = round_at(1, 99);
  last.wan_tx_bytes = 10;
  last.wait_s = 0;
  const std::string line = lines.next(last, second(0));
  EXPECT_THAT(line, HasSubstr("took 0.0 s, 0.0 s of it"));
  EXPECT_THAT(line, Not(HasSubstr("sent")));
  EXPECT_THAT(line, Not(HasSubstr("left")));
}

TEST(ParseRound, TakesTheStepWhereAnEarlierVersionDidNotSayHowManyTheRunHasTaken) {
  EXPECT_EQ(parse_round(R"({"participants": [], "step": 40})")->steps_so_far, 40U);
  EXPECT_EQ(parse_round(R"({"participants": [], "step": 40, "steps_so_far": 20})")->steps_so_far,
            20U);
}

TEST(ParseRound, TakesNothingThatIsNoRoundAndSurvivesWrongTypes) {
  EXPECT_FALSE(parse_round("{\"round\": 3}"));
  EXPECT_FALSE(parse_round("half a li"));
  const auto round = parse_round(
      R"({"participants": 5, "round": "x", "loss": null, "val_loss": "high", "waited_for": 3, "left_s": "soon"})");
  ASSERT_TRUE(round);
  EXPECT_EQ(round->round, 0U);
  EXPECT_FALSE(round->loss);
  EXPECT_FALSE(round->val_loss);
  EXPECT_FALSE(round->left_s);
  EXPECT_EQ(round->waited_for, "");
}

}  // namespace
}  // namespace causeway::run
