#include "apps/run/watch/round_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

using testing::HasSubstr;
using testing::Not;

AppliedRound round_at(std::uint64_t number, double time_s) {
  return {.round = number,
          .step = 20 * (number + 1),
          .tokens = 0,
          .wan_tx_bytes = 1'000'000 * (number + 1),
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
  RoundLines lines(1200, 60);
  EXPECT_EQ(lines.next(round_at(0, 100)),
            "round 1 of 60: step 20 of 1,200, loss 2.5000, 1,234 tokens/s, 3 regions");
}

TEST(RoundLines, TheNextSaysWhatItTookForWhomItWaitedAndWhatIsLeft) {
  RoundLines lines(1200, 60);
  lines.next(round_at(0, 100));
  AppliedRound second = round_at(1, 110);
  second.val_loss = 2.75;
  EXPECT_EQ(lines.next(second),
            "round 2 of 60: step 40 of 1,200, loss 2.5000, validation loss 2.7500, 1,234 tokens/s, "
            "3 regions, took 10 s, 2.0 s of it without steps (waited most for west), sent 1.00 MB, "
            "about 9 min 40 s left");
}

TEST(RoundLines, ARateOfTheLastRoundsTellsTheTimeLeft) {
  RoundLines lines(20 * 1000, 0);
  for (std::uint64_t number = 0; number < 20; ++number)
    lines.next(round_at(number, 1000.0 * double(number)));  // slow
  std::string line;
  for (std::uint64_t number = 20; number < 40; ++number)
    line = lines.next(round_at(number, 20'000 + 1.0 * double(number)));
  EXPECT_THAT(line, HasSubstr("about 16 min 0 s left"));
  EXPECT_THAT(line, HasSubstr("round 40: step 800 of 20,000"));
}

TEST(RoundLines, CountersThatBeginAnewAndTheLastRoundGiveNoNonsense) {
  RoundLines lines(40, 2);
  lines.next(round_at(0, 100));
  AppliedRound last = round_at(1, 99);
  last.wan_tx_bytes = 10;
  last.wait_s = 0;
  const std::string line = lines.next(last);
  EXPECT_THAT(line, HasSubstr("took 0.0 s, 0.0 s of it"));
  EXPECT_THAT(line, Not(HasSubstr("sent")));
  EXPECT_THAT(line, Not(HasSubstr("left")));
}

TEST(ParseRound, TakesNothingThatIsNoRoundAndSurvivesWrongTypes) {
  EXPECT_FALSE(parse_round("{\"round\": 3}"));
  EXPECT_FALSE(parse_round("half a li"));
  const auto round = parse_round(
      R"({"participants": 5, "round": "x", "loss": null, "val_loss": "high", "waited_for": 3})");
  ASSERT_TRUE(round);
  EXPECT_EQ(round->round, 0U);
  EXPECT_FALSE(round->val_loss);
  EXPECT_EQ(round->waited_for, "");
}

TEST(AppliedRounds, LeavesOutEventsThatAreNoRounds) {
  const TemporaryDirectory directory;
  directory.write("events.jsonl",
                  R"({"event": "peer_up", "region": "east", "round": 0, "peer": "west"})"
                  "\n"
                  R"({"round": 0, "region": "east", "participants": ["east"], "step": 20})"
                  "\n{\"rou");
  const auto rounds = applied_rounds(directory.path());
  ASSERT_EQ(rounds.size(), 1U);
  EXPECT_EQ(rounds[0].step, 20U);
}

}  // namespace
}  // namespace causeway::run
