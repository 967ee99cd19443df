#include "wan-sim/base/loss.h"

#include <vector>

#include <gtest/gtest.h>

namespace causeway::wan_sim {
namespace {

constexpr std::uint64_t kPackets = 2'000'000;

struct Figures {
  double rate = 0, burst = 0;
};

Figures measure(const LossProfile& profile, std::uint64_t seed) {
  LossChain chain(seed);
  double lost = 0, bursts = 0;
  bool before = false;
  for (std::uint64_t i = 0; i < kPackets; ++i) {
    const bool now = chain.loses_next(profile);
    lost += now;
    bursts += now && !before;
    before = now;
  }
  return {lost / kPackets, lost / bursts};
}

TEST(Loss, IndependentLossHasTheRateAskedFor) {
  const Figures figures = measure(independent_loss(0.01), 1);
  EXPECT_NEAR(figures.rate, 0.01, 0.01 * 0.05);
  EXPECT_NEAR(figures.burst, 1 / 0.99, 0.02);
}

TEST(Loss, BurstsHaveTheRateAndTheLengthAskedForWithinFivePercent) {
  for (const double rate : {0.005, 0.01, 0.05}) {
    for (const double burst : {3.0, 10.0}) {
      const Figures figures = measure(burst_loss(rate, burst), 5);
      EXPECT_NEAR(figures.rate, rate, rate * 0.05) << rate << " in bursts of " << burst;
      EXPECT_NEAR(figures.burst, burst, burst * 0.05) << rate << " in bursts of " << burst;
    }
  }
}

TEST(Loss, AGilbertElliottChainLosesInBothStates) {
  const LossProfile profile{.good = 0.001, .bad = 0.3, .enter = 0.01, .leave = 0.1};
  EXPECT_NEAR(profile.mean(), 0.001 + 0.299 * 0.01 / 0.11, 1e-12);
  EXPECT_NEAR(measure(profile, 3).rate, profile.mean(), profile.mean() * 0.05);
}

TEST(Loss, TheSameKeyLosesTheSamePackets) {
  const LossProfile profile = burst_loss(0.1, 4);
  LossChain a(9), b(9), other(10);
  bool differs = false;
  for (int i = 0; i < 1000; ++i) {
    const bool lost = a.loses_next(profile);
    EXPECT_EQ(lost, b.loses_next(profile));
    differs |= lost != other.loses_next(profile);
  }
  EXPECT_TRUE(differs);
}

TEST(Loss, NoLossDrawsNothing) {
  EXPECT_FALSE(LossProfile{}.any());
  EXPECT_FALSE(independent_loss(0).any());
  EXPECT_TRUE(independent_loss(1e-9).any());
  EXPECT_EQ(burst_loss(0.1, 1), independent_loss(0.1));
}

}  // namespace
}  // namespace causeway::wan_sim
