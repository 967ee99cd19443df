#include "tests/sim/virtual_run.h"

#include <sstream>

#include <gtest/gtest.h>

namespace causeway::sim {
namespace {

using namespace std::chrono_literals;
using wan_sim::VirtualMode;

const std::string kThree = R"(
regions = ['a', 'b', 'c']
[defaults]
rtt_ms = 100
rate_mbit_s = 100
jitter_ms = 1
)";

RunOptions three(VirtualMode mode, const std::string& more = "") {
  RunOptions options;
  options.scenario = wan_sim::parse_scenario(kThree + more, "test.toml");
  options.mode = mode;
  return options;
}

std::string log_of(RunOptions options) {
  std::ostringstream log;
  options.log = &log;
  VirtualRun run(options);
  EXPECT_TRUE(run.finish(1h)) << run.describe();
  return log.str();
}

class EveryMode : public testing::TestWithParam<VirtualMode> {};
INSTANTIATE_TEST_SUITE_P(Virtual, EveryMode,
                         testing::Values(VirtualMode::chunks, VirtualMode::fluid));

TEST_P(EveryMode, TheRealProtocolCompletesEveryRound) {
  VirtualRun run(three(GetParam()));
  ASSERT_TRUE(run.finish(1h)) << run.describe();
  EXPECT_EQ(run.history().size(), 10U);
  for (const auto& record : run.history()) EXPECT_EQ(record.participants.size(), 3U);
  EXPECT_EQ(run.state("a"), run.state("b"));
  EXPECT_EQ(run.state("a"), run.state("c"));
  // Two copies of every payload leave each region.
  EXPECT_GT(run.sent_bytes("a"), 10U * 2 * 2'000'000);
}

TEST_P(EveryMode, TheSameSeedWritesTheSameLog) {
  const std::string first = log_of(three(GetParam()));
  EXPECT_GT(first.size(), 1000U);
  EXPECT_EQ(first, log_of(three(GetParam())));
  EXPECT_NE(first, log_of(three(GetParam(), "[[event]]\nat_s = 50\nrate_mbit_s = 20\n")));
}

TEST_P(EveryMode, AKilledRegionIsMissedAndComesBack) {
  RunOptions options = three(GetParam(), R"(
[[event]]
at_s = 50
process = "kill"
region = "c"
[[event]]
at_s = 150
process = "restart"
region = "c"
)");
  options.rounds = 15;
  VirtualRun run(options);
  ASSERT_TRUE(run.finish(1h)) << run.describe();
  EXPECT_EQ(run.state("a"), run.state("c"));
  std::size_t without = 0;
  for (const auto& record : run.history()) without += record.participants.size() == 2;
  EXPECT_GT(without, 1U);
  EXPECT_LT(without, 12U);
}

TEST_P(EveryMode, ARegionBehindABlackHoleIsLeftOutAndRejoins) {
  RunOptions options = three(GetParam(), R"(
[[event]]
at_s = 45
pair = ["a", "c"]
fault = "black-hole"
for_s = 90
[[event]]
at_s = 45
pair = ["b", "c"]
fault = "black-hole"
for_s = 90
)");
  options.rounds = 15;
  VirtualRun run(options);
  ASSERT_TRUE(run.finish(1h)) << run.describe();
  EXPECT_EQ(run.state("a"), run.state("c"));
  EXPECT_LT(run.history()[3].participants.size(), 3U);
  EXPECT_EQ(run.history().back().participants.size(), 3U);
}

TEST(Virtual, ASlowerLinkMakesRegionsWaitAsLongAsThePayloadTakes) {
  const auto wait_s = [](VirtualMode mode, const std::string& rate) {
    RunOptions options = three(mode, "[[event]]\nat_s = 0\nrate_mbit_s = " + rate + "\n");
    options.compute_spread = 0;
    VirtualRun run(options);
    EXPECT_TRUE(run.finish(1h)) << run.describe();
    return run.wait_s("a") / 10;
  };
  // 2 MB at 8 Mbit/s take 2 s; the two links of a region do not share.
  for (const VirtualMode mode : {VirtualMode::chunks, VirtualMode::fluid}) {
    EXPECT_NEAR(wait_s(mode, "8") - wait_s(mode, "1000"), 2.0, 0.25);
  }
}

}  // namespace
}  // namespace causeway::sim
