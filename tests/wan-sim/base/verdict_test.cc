#include "wan-sim/base/verdict.h"

#include <gtest/gtest.h>

namespace causeway::wan_sim {
namespace {

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
