#include "tests/sim/virtual_run.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
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

// Its links carry a round's payloads five times as fast as they are made. A snapshot takes them as
// long as the run takes for three more.
TEST_P(EveryMode, ARegionBehindSlowLinksTakesPartAgainAfterAnOutage) {
  std::string more;
  for (const char* other : {"a", "b"}) {
    more += fmt::format(R"(
[[link]]
a = "{0}"
b = "c"
rate_mbit_s = 2
[[event]]
at_s = 30
pair = ["{0}", "c"]
fault = "black-hole"
for_s = 45
)",
                        other);
  }
  RunOptions options = three(GetParam(), more);
  options.rounds = 200;
  options.payload_bytes = 57'000;
  options.snapshot_bytes = 13'200'000;
  options.compute = 1500ms;
  VirtualRun run(options);
  ASSERT_TRUE(run.finish(1h)) << run.describe();
  const auto lists_c = [](const diloco::CommitRecord& record) {
    return std::ranges::count(record.participants, "c", &diloco::Participant::region) > 0;
  };
  EXPECT_FALSE(lists_c(run.history()[35])) << "it was cut off";
  const auto back = run.history().begin() + 100;
  EXPECT_GT(std::count_if(back, back + 50, lists_c), 40);
  EXPECT_TRUE(std::all_of(run.history().end() - 20, run.history().end(), lists_c));
}

// When each round was committed first, from a run's log.
std::vector<double> commit_times(const std::string& log) {
  std::vector<double> times;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" commit ") != std::string::npos) times.push_back(1e-9 * std::stod(line));
  }
  return times;
}

// One region is cut off in the middle of the exchange: the others wait for it as long as the last
// record says, and in the next round not at all.
TEST(Virtual, ABlackHoleInTheMiddleOfAnExchangeCostsOneGraceAndNoMore) {
  constexpr double kRoundTrip = 0.1;
  const auto run_with = [](const std::string& events, std::vector<diloco::CommitRecord>& history) {
    RunOptions options = three(VirtualMode::chunks, events);
    options.compute_spread = 0;
    options.payload_bytes = 12'500'000;  // a second
    std::ostringstream log;
    options.log = &log;
    VirtualRun run(options);
    EXPECT_TRUE(run.finish(1h)) << run.describe();
    history = run.history();
    return commit_times(log.str());
  };
  std::vector<diloco::CommitRecord> history;
  const auto calm = run_with("", history);
  const std::string at = "at_s = " + std::to_string(calm[3] - 0.5) + "\nfor_s = 60\n";
  const auto faulty = run_with("[[event]]\npair = ['a', 'c']\nfault = 'black-hole'\n" + at +
                                   "[[event]]\npair = ['b', 'c']\nfault = 'black-hole'\n" + at,
                               history);
  ASSERT_EQ(faulty.size(), calm.size());
  EXPECT_EQ(history[3].participants.size(), 2U);
  const double grace_s = 1e-3 * history[2].next_grace_ms;
  const double extra_s = faulty[3] - calm[3];
  const double next_s = (faulty[4] - faulty[3]) - (calm[4] - calm[3]);
  RecordProperty("extra_s", std::to_string(extra_s));
  RecordProperty("grace_s", std::to_string(grace_s));
  RecordProperty("next_s", std::to_string(next_s));
  EXPECT_GT(extra_s, 0) << "the exchange was not under way";
  EXPECT_LE(extra_s, grace_s + 2 * kRoundTrip);
  EXPECT_LE(next_s, 2 * kRoundTrip);
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
