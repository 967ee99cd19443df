#include "diloco/pacing/pace.h"

#include <gtest/gtest.h>

#include <cmath>

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
