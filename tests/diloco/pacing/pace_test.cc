#include "diloco/pacing/pace.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

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

Round counted(const Pace& pace) {
  Round rounds = pace.fragments - 1;
  for (std::uint64_t step = 0; step < pace.steps; step += pace.round_steps(step)) ++rounds;
  return rounds;
}

TEST(Pace, RoundsAreAsManyAsCountingThemFinds) {
  for (std::uint64_t steps = 0; steps <= 40; ++steps) {
    for (std::uint32_t fragments = 1; fragments <= 3; ++fragments) {
      for (std::uint32_t k = 1; k <= 12; ++k) {
        for (const std::uint32_t warmup_k : {0U, 1U, 2U, 3U, 5U, 6U, 15U}) {
          for (std::uint64_t warmup_steps = 0; warmup_steps <= 45; warmup_steps += 3) {
            const Pace pace{.steps = steps,
                            .k = k,
                            .fragments = fragments,
                            .warmup_k = warmup_k,
                            .warmup_steps = warmup_steps};
            ASSERT_EQ(pace.rounds(), counted(pace))
                << steps << " steps, K = " << k << ", " << fragments << " fragments, " << warmup_k
                << " for " << warmup_steps;
          }
        }
      }
    }
  }
}

TEST(Pace, RoundsThatAreLeftAreThoseThatBeginLater) {
  const Pace pace{.steps = 100, .k = 20, .fragments = 2, .warmup_k = 4, .warmup_steps = 12};
  std::uint64_t step = 0;
  for (Round done = 0; step < pace.steps; ++done, step += pace.round_steps(step))
    EXPECT_EQ(done + pace.rounds_after(step), pace.rounds()) << step;
  EXPECT_EQ(pace.rounds_after(100), 1U);
  EXPECT_EQ(pace.rounds_after(101), 1U);
  EXPECT_EQ((Pace{.steps = 1200, .k = 50}.rounds_after(650)), 11U);
}

// Counting these would take years.
TEST(Pace, RoundsOfTheLongestRunAreKnownAtOnce) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ((Pace{.steps = 1'000'000'000'000, .k = 20}.rounds()), 50'000'000'000U);
  EXPECT_EQ((Pace{.steps = kMost, .k = 1}.rounds()), kMost);
  EXPECT_EQ((Pace{.steps = kMost, .k = 7, .warmup_k = 2, .warmup_steps = kMost}.rounds()),
            kMost / 2 + 1);
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
