#include "wan-sim/base/impairments.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "wan-sim/base/chance.h"

namespace causeway::wan_sim {
namespace {

using namespace std::chrono_literals;

constexpr int kDraws = 20'000;
// Kolmogorov and Smirnov: sqrt(n) D exceeds 1.63 once in a hundred samples; the seed is fixed.
constexpr double kCritical = 1.63;

std::vector<double> draws_ms(const JitterProfile& profile, std::uint64_t seed = 1) {
  JitterChain chain;
  std::vector<double> values;
  for (int i = 0; i < kDraws; ++i) {
    const double z = chain.draw(profile, mix(seed, static_cast<std::uint64_t>(i)), false);
    values.push_back(1000 * in_seconds(jitter_of(profile, z)));
  }
  return values;
}

double kolmogorov_smirnov(std::vector<double> values, const std::function<double(double)>& cdf) {
  std::sort(values.begin(), values.end());
  double distance = 0;
  const auto n = static_cast<double>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = cdf(values[i]);
    distance = std::max({distance, std::abs(expected - static_cast<double>(i) / n),
                         std::abs(expected - static_cast<double>(i + 1) / n)});
  }
  return distance * std::sqrt(n);
}

double phi(double z) {
  return 0.5 * std::erfc(-z / std::sqrt(2));
}

struct Case {
  std::string name;
  JitterProfile profile;
  std::function<double(double)> cdf;  // of milliseconds
};

std::vector<Case> cases() {
  return {
      {"half-normal", {JitterShape::half_normal, 2ms}, [](double x) { return 2 * phi(x / 2) - 1; }},
      {"uniform", {JitterShape::uniform, 3ms}, [](double x) { return (x + 3) / 6; }},
      {"normal", {JitterShape::normal, 2ms}, [](double x) { return phi(x / 2); }},
      {"lognormal",
       {JitterShape::lognormal, 2ms, 0.7},
       [](double x) { return phi(std::log(x / 2) / 0.7); }},
      {"pareto",
       {JitterShape::pareto, 2ms, 2.5},
       [](double x) { return 1 - std::pow(1 + x / 2, -2.5); }},
      {"table",
       {JitterShape::table, 0us, 0, 0, {0, 1, 2, 10}},
       [](double x) { return x < 2 ? x / 3 : 2.0 / 3 + (x - 2) / 24; }},
  };
}

TEST(Jitter, HasTheDistributionAskedFor) {
  for (const Case& each : cases()) {
    EXPECT_LT(kolmogorov_smirnov(draws_ms(each.profile), each.cdf), kCritical) << each.name;
  }
}

TEST(Jitter, AnotherDistributionFailsTheSameTest) {
  const auto all = cases();
  EXPECT_GT(kolmogorov_smirnov(draws_ms(all[2].profile), all[1].cdf), kCritical);
  JitterProfile wider = all[2].profile;
  wider.scale = 2100us;
  EXPECT_GT(kolmogorov_smirnov(draws_ms(wider), all[2].cdf), kCritical);
}

double correlation_of_neighbours(const std::vector<double>& values) {
  double mean = 0, square = 0, product = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    square += (values[i] - mean) * (values[i] - mean);
    if (i > 0) product += (values[i] - mean) * (values[i - 1] - mean);
  }
  return product / square;
}

TEST(Jitter, CorrelationJoinsNeighboursAndLeavesTheDistribution) {
  for (const double rho : {0.0, 0.5, 0.9}) {
    JitterProfile profile{JitterShape::normal, 2ms, 0, rho};
    const auto values = draws_ms(profile);
    EXPECT_NEAR(correlation_of_neighbours(values), rho, 0.02);
    // Correlated draws are worth fewer independent ones: (1 - rho) / (1 + rho) of them.
    const double effective = std::sqrt((1 - rho) / (1 + rho));
    EXPECT_LT(effective * kolmogorov_smirnov(values, [](double x) { return phi(x / 2); }),
              kCritical);
  }
}

TEST(Jitter, OnTheGridWhatLayBetweenChangesNothing) {
  const JitterProfile profile{JitterShape::normal, 1ms, 0, 0.8};
  JitterChain bulk, cut;
  for (std::uint64_t cell = 0; cell < 100; ++cell) {
    const double whole = bulk.draw(profile, mix(7, cell * 1000), true);
    EXPECT_EQ(cut.draw(profile, mix(7, cell * 1000), true), whole);
    cut.draw(profile, mix(7, cell * 1000 + 300), false);
  }
}

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

using namespace std::chrono_literals;

StallSchedule without_chance() {
  return StallSchedule(0, Time{0}, 1);
}

TEST(StallSchedule, LeavesWorkAloneWithoutStalls) {
  auto stalls = without_chance();
  stalls.start(0s);
  EXPECT_EQ(stalls.done(5s, 0s), 5s);
  EXPECT_EQ(stalls.done(5s, 2s), 7s);
}

TEST(StallSchedule, InterruptsWorkForAsLongAsTheStallLasts) {
  auto stalls = without_chance();
  stalls.add(10s, 3s);
  EXPECT_EQ(stalls.done(9s, 1s), 10s);   // done at the moment it begins
  EXPECT_EQ(stalls.done(9s, 2s), 14s);   // half before, half after
  EXPECT_EQ(stalls.done(10s, 0s), 13s);  // nothing begins inside
  EXPECT_EQ(stalls.done(12s, 1s), 14s);
  EXPECT_EQ(stalls.done(13s, 1s), 14s);
}

TEST(StallSchedule, MergesStallsThatOverlapInAnyOrder) {
  auto stalls = without_chance();
  stalls.add(20s, 5s);
  stalls.add(10s, 5s);
  stalls.add(12s, 9s);  // joins both
  stalls.add(13s, 1s);  // inside
  EXPECT_EQ(stalls.done(9s, 2s), 26s);
  stalls.add(40s, 1s);
  stalls.add(30s, 1s);
  EXPECT_EQ(stalls.done(29s, 12s), 43s);
}

std::vector<Time> stall_ends(std::uint64_t key, int count) {
  StallSchedule stalls(2.0, 10ms, key);
  stalls.start(1s);
  std::vector<Time> ends;
  Time time = 0s;
  while (static_cast<int>(ends.size()) < count) {
    const Time next = stalls.done(time, 1ms);
    if (next > time + 1ms) ends.push_back(next);
    time = next;
    stalls.forget(time);
  }
  return ends;
}

TEST(StallSchedule, RepeatsBySeed) {
  EXPECT_EQ(stall_ends(7, 100), stall_ends(7, 100));
  EXPECT_NE(stall_ends(7, 100), stall_ends(8, 100));
}

TEST(StallSchedule, StallsAsOftenAsAsked) {
  const auto ends = stall_ends(7, 4000);
  // 2 stalls of 10 ms a second, of which about 2 % merge with the one before.
  EXPECT_NEAR(std::chrono::duration<double>(ends.back() - 1s).count(), 4000 / 2.0 * 1.02, 60.0);
}

TEST(StallSchedule, ForgettingThePastChangesNothingAhead) {
  StallSchedule remembers(5.0, 20ms, 3), forgets(5.0, 20ms, 3);
  remembers.start(0s);
  forgets.start(0s);
  for (Time time = 0s; time < 100s; time += 7ms) {
    forgets.forget(time);
    ASSERT_EQ(remembers.done(time, 3ms), forgets.done(time, 3ms));
  }
}

}  // namespace

}  // namespace causeway::wan_sim
