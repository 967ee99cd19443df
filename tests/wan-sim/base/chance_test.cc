#include "wan-sim/base/chance.h"

#include <cmath>

#include <gtest/gtest.h>

namespace causeway::wan_sim {
namespace {

constexpr int kMeanDraws = 100'000;

template <typename Draw>
double mean(Draw draw) {
  double sum = 0;
  for (int i = 0; i < kMeanDraws; ++i) sum += draw(mix(42, static_cast<std::uint64_t>(i)));
  return sum / kMeanDraws;
}

TEST(Chance, HasTheMeansOfItsDistributions) {
  EXPECT_NEAR(mean(uniform), 0.5, 0.005);
  EXPECT_NEAR(mean(exponential), 1.0, 0.01);
  EXPECT_NEAR(mean(half_normal), std::sqrt(2 / M_PI), 0.005);
  EXPECT_NEAR(mean([](auto key) { return std::pow(half_normal(key), 2); }), 1.0, 0.01);
}

TEST(Chance, UniformStaysInsideTheOpenInterval) {
  for (std::uint64_t key = 0; key < kMeanDraws; ++key) {
    ASSERT_GT(uniform(key), 0.0);
    ASSERT_LT(uniform(key), 1.0);
  }
}

TEST(Chance, RepeatsByKeyOnEveryMachine) {
  EXPECT_EQ(mix(1, 2), mix(1, 2));
  EXPECT_NE(mix(1, 2), mix(2, 1));
  EXPECT_EQ(key_of("us-east"), key_of(std::string_view("us-east-1").substr(0, 7)));
  EXPECT_EQ(key_of(""), 0xcbf29ce484222325U);  // FNV-1a's offset basis
  EXPECT_EQ(key_of("a"), 0xaf63dc4c8601ec8cU);
}

}  // namespace
}  // namespace causeway::wan_sim
