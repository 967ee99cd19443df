#include "diloco/pacing/pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "diloco/maths/outer.h"

namespace causeway::diloco {
namespace {

TEST(Pace, HasARoundPerKSteps) {
  const Pace pace{.steps = 100, .k = 25};
  EXPECT_EQ(pace.round_steps(0), 25U);
  EXPECT_EQ(pace.round_steps(100), 0U);
  EXPECT_EQ(pace.rounds(), 4U);
}

TEST(Pace, FragmentsTakeTurnsAndAllHaveALastOne) {
  const Pace pace{.steps = 100, .k = 20, .fragments = 4};
  EXPECT_EQ(pace.round_steps(0), 5U);
  EXPECT_EQ(pace.rounds(), 20U + 3U);
}

TEST(Pace, WarmsUpWithShortRounds) {
  const Pace pace{.steps = 100, .k = 20, .warmup_k = 4, .warmup_steps = 20};
  EXPECT_EQ(pace.round_steps(16), 4U);
  EXPECT_EQ(pace.round_steps(20), 20U);
  EXPECT_EQ(pace.rounds(), 5U + 4U);
}

TEST(Pace, CutsTheLastRoundShort) {
  const Pace pace{.steps = 100, .k = 20, .warmup_k = 4, .warmup_steps = 10};
  EXPECT_EQ(pace.round_steps(92), 8U);
  EXPECT_EQ(pace.rounds(), 3U + 5U);
}

TEST(Pace, ByRateHasAsManyRoundsAndLongOnesWhereTheRateIsLow) {
  constexpr std::uint64_t kSteps = 2100;
  constexpr Round kRounds = 21;
  const auto falling = [](std::uint64_t step) { return 1.0 - double(step) / kSteps; };
  const Pace pace{.steps = kSteps, .k = 100, .ends = ends_by_rate(kSteps, kRounds, falling)};
  EXPECT_EQ(pace.rounds(), kRounds);
  std::uint32_t before = 0, longest = 0;
  for (std::uint64_t step = 0; step < kSteps; step += before) {
    const std::uint32_t length = pace.round_steps(step);
    EXPECT_GE(length + 1, before) << "at " << step;
    before = length;
    longest = std::max(longest, length);
  }
  EXPECT_EQ(pace.round_steps(kSteps), 0U);
  EXPECT_NEAR(pace.round_steps(0), 54,
              3);  // 100 steps of the mean rate are as much as 50 of twice it
  EXPECT_GT(longest, 250U);
  EXPECT_LE(longest, 400U);
}

TEST(Pace, ByRateEveryRoundHasAStep) {
  const auto rare = [](std::uint64_t step) { return step == 0 ? 1.0 : 0.0; };
  for (const Round rounds : {Round{1}, Round{7}, Round{10}}) {
    const Pace pace{.steps = 10, .k = 1, .ends = ends_by_rate(10, rounds, rare)};
    EXPECT_EQ(pace.rounds(), rounds);
    EXPECT_EQ(pace.ends.back(), 10U);
    EXPECT_EQ(std::set(pace.ends.begin(), pace.ends.end()).size(), rounds);
  }
  const Pace even{.steps = 100, .k = 25, .ends = ends_by_rate(100, 4, [](auto) { return 1.0; })};
  EXPECT_EQ(even.ends, (std::vector<std::uint64_t>{25, 50, 75, 100}));
}

TEST(Pace, MomentumDecaysWithSteps) {
  EXPECT_FALSE(momentum_after(30, 30, 0.9F));
  EXPECT_FALSE(momentum_after(15, 30, 0.0F));
  EXPECT_FLOAT_EQ(*momentum_after(15, 30, 0.81F), 0.9F);
  EXPECT_FLOAT_EQ(*momentum_after(60, 30, 0.9F), 0.81F);
}

TEST(Overlap, GainIsWhatTheOuterStepDoesAtOnce) {
  for (const auto kind : {OuterOptions::Kind::sgd, OuterOptions::Kind::nesterov}) {
    const OuterOptions outer{kind, 0.5F, 0.75F};
    const std::vector<float> delta{1.0F};
    std::vector<float> anchor{0.0F}, momentum{0.0F};
    outer_step(outer, delta, anchor, momentum);
    EXPECT_EQ(-anchor[0], immediate_gain(outer));
  }
}

}  // namespace
}  // namespace causeway::diloco
