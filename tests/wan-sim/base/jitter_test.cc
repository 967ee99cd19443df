#include "wan-sim/base/jitter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

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

}  // namespace
}  // namespace causeway::wan_sim
