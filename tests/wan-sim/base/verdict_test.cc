#include "wan-sim/base/verdict.h"

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

using namespace std::chrono_literals;

TEST(Verdict, SaysWhatWasMeasuredAndWhatIsAllowed) {
  EXPECT_EQ(to_string(Verdict{2ms, 5ms, 0.004}),
            "valid: bytes were released up to 2.00 ms late (99 %; at most 5.00 ms allowed), and "
            "0.4 % of what a link could carry was missed (at most 2 % allowed)");
}

TEST(Verdict, ALateMachineMakesARunInvalid) {
  const Verdict late{9ms, 5ms, 0};
  EXPECT_FALSE(late.valid());
  EXPECT_TRUE(to_string(late).ends_with("; this run describes the machine, not the WAN"));
}

TEST(Verdict, ALinkThatCarriedLessThanItsRateMakesARunInvalid) {
  EXPECT_TRUE((Verdict{1ms, 5ms, 0.02}).valid());
  const Verdict slow{1ms, 5ms, 0.1};
  EXPECT_FALSE(slow.valid());
  EXPECT_TRUE(to_string(slow).ends_with("; this run describes the machine, not the WAN"));
}

TEST(Verdict, APairThatCarriedNothingMakesARunInvalidAndIsNamed) {
  const Verdict silent{1ms, 5ms, 0, {"eu:us"}};
  EXPECT_FALSE(silent.valid());
  EXPECT_TRUE(to_string(silent).ends_with(
      "; eu:us carried nothing. A program that finds its peers' addresses by itself (Gloo, NCCL, "
      "MPI) goes past the relay; run it with --engine packet"));
}

}  // namespace

}  // namespace causeway::wan_sim
