#include "diloco/round/speeds.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>

namespace causeway::diloco {
namespace {

Contribution work_of(const std::string& region, std::uint32_t steps, double compute_s) {
  Contribution made;
  made.region = region;
  made.steps = steps;
  made.compute_s = compute_s;
  return made;
}

TEST(Speeds, LeaveTheStepsOfARegionThatIsNotKnown) {
  Speeds speeds;
  EXPECT_EQ(speeds.adapted(64, "a"), 64);
  EXPECT_EQ(speeds.slowest(64), Time{0});
  speeds.learn(work_of("b", 10, 10));
  EXPECT_EQ(speeds.adapted(64, "a"), 64);
}

TEST(Speeds, GiveStepsInProportionToTheFastestButAtLeastOne) {
  Speeds speeds;
  speeds.learn(work_of("fast", 1000, 10));
  speeds.learn(work_of("half", 500, 10));
  speeds.learn(work_of("crawling", 1, 1000));
  EXPECT_EQ(speeds.adapted(64, "fast"), 64);
  EXPECT_EQ(speeds.adapted(65, "half"), 32);
  EXPECT_EQ(speeds.adapted(64, "crawling"), 1);
  EXPECT_EQ(speeds.adapted(0, "crawling"), 0);
}

TEST(Speeds, CountTheNewestMeasurementForHalf) {
  Speeds speeds;
  speeds.learn(work_of("a", 100, 10));
  speeds.learn(work_of("a", 200, 10));
  EXPECT_EQ(speeds.slowest(150), std::chrono::seconds{10});
}

TEST(Speeds, LearnNothingFromContributionsThatTellNone) {
  Speeds speeds;
  speeds.learn(work_of("a", 0, 10));
  speeds.learn(work_of("a", 10, 0));
  speeds.learn(work_of("a", 10, -1));
  speeds.learn(work_of("a", 10, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_EQ(speeds.slowest(10), Time{0});
}

// Infinitely many steps per second, or nearly, would leave one step a round to everybody else.
TEST(Speeds, LearnNothingFromASpeedThatNoMachineHas) {
  Speeds speeds;
  speeds.learn(work_of("a", 10, 1));
  for (const double compute_s : {1e-320, 1e-9}) speeds.learn(work_of("liar", 100, compute_s));
  EXPECT_FALSE(speeds.knows("liar"));
  EXPECT_EQ(speeds.adapted(64, "a"), 64);
  speeds.learn(work_of("a", 10, 1e-320));
  EXPECT_EQ(speeds.slowest(10), std::chrono::seconds{1});
}

TEST(Speeds, CountAFastRegionAsSixteenTimesTheMedianAtMost) {
  Speeds speeds;
  speeds.learn(work_of("a", 10, 1));
  speeds.learn(work_of("b", 10, 1));
  speeds.learn(work_of("liar", 1'000'000, 1));
  EXPECT_EQ(speeds.adapted(64, "a"), 4);
  EXPECT_EQ(speeds.adapted(64, "liar"), 64);
}

TEST(Speeds, BelieveNoRegionThatItNeedsMoreThanADay) {
  Speeds speeds;
  speeds.learn(work_of("a", 1, 1e300));
  EXPECT_EQ(speeds.slowest(10), std::chrono::hours{24});
}

}  // namespace
}  // namespace causeway::diloco
