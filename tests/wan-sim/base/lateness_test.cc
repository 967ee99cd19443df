#include "wan-sim/base/lateness.h"

#include <gtest/gtest.h>

namespace causeway::wan_sim {
namespace {

using namespace std::chrono_literals;

TEST(Lateness, IsZeroWithoutSamples) {
  EXPECT_EQ(Lateness().quantile(0.99), 0us);
}

TEST(Lateness, FindsQuantilesWithinTheWidthOfABucket) {
  Lateness lateness;
  for (int i = 1; i <= 1000; ++i) lateness.add(i * 10us);
  EXPECT_GE(lateness.quantile(0.5), 5000us);
  EXPECT_LE(lateness.quantile(0.5), 5460us);
  EXPECT_GE(lateness.quantile(0.99), 9900us);
  EXPECT_LE(lateness.quantile(0.99), 10800us);
}

TEST(Lateness, IgnoresAFewOutliersBelowTheQuantile) {
  Lateness lateness;
  for (int i = 0; i < 1000; ++i) lateness.add(50us);
  for (int i = 0; i < 9; ++i) lateness.add(1h);
  EXPECT_LE(lateness.quantile(0.99), 55us);
  EXPECT_GT(lateness.quantile(1.0), 1s);
}

TEST(Lateness, CountsEarlyAsOnTime) {
  Lateness lateness;
  lateness.add(-5ms);
  EXPECT_LE(lateness.quantile(0.99), 1us);
}

}  // namespace
}  // namespace causeway::wan_sim
