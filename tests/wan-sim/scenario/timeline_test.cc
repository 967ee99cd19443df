#include "wan-sim/scenario/timeline.h"

#include <system_error>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wan-sim/base/error.h"

namespace causeway::wan_sim {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const std::string kHead = "regions = ['a', 'b']\n[defaults]\nrtt_ms = 10\nrate_mbit_s = 80\n";

Scenario with(const std::string& event) {
  return parse_scenario(kHead + "[[event]]\n" + event, "test.toml");
}

void expect_refused(const std::string& event, const std::string& what) {
  try {
    with(event);
    ADD_FAILURE() << "accepted: " << event;
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("test.toml:"));
    EXPECT_THAT(error.what(), HasSubstr(what));
  }
}

TEST(Timeline, AChangeIsUndoneAfterItsTime) {
  const Scenario scenario = with("at_s = 5\npair = ['a', 'b']\nrate_mbit_s = 8\nfor_s = 2\n");
  Timeline timeline(scenario);
  EXPECT_EQ(timeline.next(), 5s);
  EXPECT_TRUE(timeline.take(4s).empty());
  const auto begun = timeline.take(5s);
  ASSERT_EQ(begun.size(), 1U);
  EXPECT_EQ(begun[0].action.links, (std::vector<Pair>{{"a", "b"}, {"b", "a"}}));
  const LinkProfile& base = scenario.links.at({"a", "b"});
  const auto slow = changed_profile(begun[0].action, base, base);
  EXPECT_EQ(slow->rate_bytes_per_s, 1e6);
  const auto ended = timeline.take(1h);
  ASSERT_EQ(ended.size(), 2U) << "one for each link";
  for (const TimedAction& end : ended) {
    EXPECT_EQ(end.at, 7s);
    EXPECT_EQ(changed_profile(end.action, *slow, base)->rate_bytes_per_s, 10e6);
  }
  EXPECT_FALSE(timeline.next());
}

TEST(Timeline, UndoingLossGivesTheBurstsBack) {
  const Scenario scenario = parse_scenario(
      "regions = ['a', 'b']\n[defaults]\nrtt_ms = 10\nrate_mbit_s = 80\nloss = 0.01\n"
      "loss_burst_packets = 5\n[[event]]\nat_s = 1\nloss = 0.2\nfor_s = 1\n",
      "test.toml");
  const LinkProfile& base = scenario.links.at({"a", "b"});
  EXPECT_NEAR(base.loss.leave, 0.2, 1e-12);
  const auto lossy = changed_profile(scenario.timeline[0].action, base, base);
  EXPECT_EQ(lossy->loss, independent_loss(0.2));
  EXPECT_EQ(changed_profile(scenario.timeline[1].action, *lossy, base)->loss, base.loss);
}

TEST(Timeline, AFlapGoesDownAndUpAsOftenAsAsked) {
  const Scenario scenario =
      with("at_s = 1\nlink = ['a', 'b']\nfault = 'flap'\nperiod_s = 10\ndown_s = 2\ntimes = 3\n");
  ASSERT_EQ(scenario.timeline.size(), 6U);
  EXPECT_EQ(scenario.timeline[4].at, 21s);
  EXPECT_EQ(std::get<Fault>(scenario.timeline[4].action.what).kind, FaultKind::black_hole);
  EXPECT_EQ(scenario.timeline[5].at, 23s);
  EXPECT_EQ(std::get<Heal>(scenario.timeline[5].action.what).kind, FaultKind::black_hole);
  EXPECT_EQ(scenario.timeline[5].action.links, (std::vector<Pair>{{"a", "b"}}));
}

TEST(Timeline, EventsComeInTheOrderOfTime) {
  const Scenario scenario = parse_scenario(
      kHead + "[[event]]\nat_s = 9\nfault = 'reset'\n[[event]]\nat_s = 3\nfault = 'refuse'\n", "x");
  EXPECT_EQ(scenario.timeline[0].at, 3s);
  EXPECT_EQ(scenario.timeline[0].action.links.size(), 2U);  // no pair: every link
}

TEST(Timeline, AProcessIsPausedAndResumed) {
  const Scenario scenario = with("at_s = 2\nprocess = 'pause'\nregion = 'b'\nfor_s = 3\n");
  ASSERT_EQ(scenario.timeline.size(), 2U);
  EXPECT_EQ(std::get<ProcessAction>(scenario.timeline[0].action.what).verb, ProcessVerb::pause);
  EXPECT_EQ(std::get<ProcessAction>(scenario.timeline[1].action.what).verb, ProcessVerb::resume);
}

TEST(Timeline, OneWorkerIsKilledForAWhile) {
  const Scenario scenario =
      with("at_s = 2\nprocess = 'kill'\nregion = 'b'\nrole = 'worker'\nrank = 1\nfor_s = 3\n");
  const auto& first = std::get<ProcessAction>(scenario.timeline[0].action.what);
  EXPECT_EQ(first.verb, ProcessVerb::kill);
  EXPECT_EQ(first.target.role, ProcessRole::worker);
  EXPECT_EQ(first.target.rank, 1U);
  const auto& second = std::get<ProcessAction>(scenario.timeline[1].action.what);
  EXPECT_EQ(second.verb, ProcessVerb::restart);
  EXPECT_EQ(second.target.rank, 1U);
}

TEST(Timeline, ATraceStartsAgainAtItsEnd) {
  Scenario scenario = parse_scenario(kHead, "x");
  Trace trace;
  trace.steps = {{0s, {{"rate_mbit_s", 1}}}, {2s, {{"rate_mbit_s", 2}}}};
  trace.length = 3s;
  scenario.traces[{"a", "b"}] = trace;
  Timeline timeline(scenario);
  const auto steps = timeline.take(6s);
  ASSERT_EQ(steps.size(), 5U);
  EXPECT_EQ(steps[2].at, 3s);
  EXPECT_EQ(steps[3].at, 5s);
  EXPECT_EQ(std::get<Settings>(steps[3].action.what).at("rate_mbit_s"), 2);
  EXPECT_EQ(timeline.next(), 8s);
}

TEST(Timeline, RefusesWhatMakesNoSense) {
  expect_refused("pair = ['a', 'b']\nfault = 'reset'\n", "needs at_s");
  expect_refused("at_s = 1\n", "does nothing");
  expect_refused("at_s = 1\nfault = 'melt'\n", "fault must be one of: black-hole, stall,");
  expect_refused("at_s = 1\nfault = 'stall'\n", "needs for_s");
  expect_refused("at_s = 1\nfault = 'reset'\nfor_s = 1\n", "happens once");
  expect_refused("at_s = 1\nfault = 'corrupt'\n", "needs after_bytes");
  expect_refused("at_s = 1\nfault = 'slow-close'\n", "needs close_ms");
  expect_refused("at_s = 1\nfault = 'flap'\nperiod_s = 1\ndown_s = 1\ntimes = 1\n",
                 "down_s must be less than period_s");
  expect_refused("at_s = 1\nfault = 'reset'\nrate_mbit_s = 1\n", "unknown key 'rate_mbit_s'");
  expect_refused("at_s = 1\npair = ['a', 'x']\nfault = 'reset'\n", "'x' is not one of the regions");
  expect_refused("at_s = 1\npair = ['a']\nfault = 'reset'\n", "two regions");
  expect_refused("at_s = 1\npair = ['a', 'b']\nlink = ['a', 'b']\nfault = 'reset'\n", "exclude");
  expect_refused("at_s = 1\nprocess = 'kill'\n", "needs region");
  expect_refused("at_s = 1\nprocess = 'restart'\nregion = 'a'\nfor_s = 1\n", "pause and kill only");
  expect_refused("at_s = 1\nprocess = 'kill'\nregion = 'a'\nrole = 'witch'\n",
                 "coordinator, worker");
  expect_refused("at_s = 1\nprocess = 'kill'\nregion = 'a'\nrank = 1\n", "rank needs role");
  expect_refused("at_s = 1\nstall_ms = 5\n", "unknown key 'stall_ms'");
  expect_refused("at_s = 1\ncongestion = 'cubic'\n", "unknown key 'congestion'");
}

TEST(Timeline, ALineOfTheControlSocketIsTheSameActionNow) {
  const Scenario scenario = parse_scenario(kHead, "x");
  const auto actions =
      parse_action(scenario, "fault = 'black-hole', link = ['a', 'b'], for_s = 0.5");
  ASSERT_EQ(actions.size(), 2U);
  EXPECT_EQ(actions[0].at, 0s);
  EXPECT_EQ(actions[1].at, 500ms);
  EXPECT_THAT(actions[0].action.text, HasSubstr("black-hole"));
  EXPECT_THROW(parse_action(scenario, "at_s = 1, fault = 'reset'"), std::system_error);
  EXPECT_THROW(parse_action(scenario, "fault = 'reset'}\nseed = {"), std::system_error);
  EXPECT_THROW(parse_action(scenario, "reorder = 0.1"), std::system_error);
  EXPECT_EQ(parse_action(scenario, "reorder = 0.1", Engine::packet).size(), 1U);
  EXPECT_THROW(parse_action(scenario, "fault = 'reset'", Engine::packet), std::system_error);
}

void expect_dishonoured(const std::string& setting, Engine engine, const std::string& what) {
  const Scenario scenario = parse_scenario(kHead + setting, "test.toml");
  try {
    require_honoured(scenario, engine);
    ADD_FAILURE() << "honoured: " << setting;
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::bad_scenario);
    EXPECT_THAT(error.what(), HasSubstr(what));
  }
}

TEST(Engines, RefuseWhatTheyCannotHonourWithFileLineAndEngine) {
  expect_dishonoured(
      "reorder = 0.1\n", Engine::relay,
      "test.toml:5: the relay engine cannot honour reorder; engines that can: packet");
  expect_dishonoured("congestion = 'none'\n", Engine::packet, "cannot honour congestion");
  expect_dishonoured("congestion = 'bbr'\nsend_buffer_kib = 512\n", Engine::packet,
                     "cannot honour send_buffer_kib");
  expect_dishonoured("congestion = 'cubic'\n", Engine::virtual_fluid, "cannot honour congestion");
  expect_dishonoured("loss = 0.1\n", Engine::virtual_fluid, "relay, packet, virtual (chunks)");
  expect_dishonoured("[[event]]\nat_s = 1\nfault = 'corrupt'\nafter_bytes = 3\n",
                     Engine::virtual_chunks, "cannot honour corrupt");
  require_honoured(parse_scenario(kHead + "loss = 0.1\ncongestion = 'bbr'\n", "x"), Engine::relay);
  require_honoured(parse_scenario(kHead + "loss = 0\n", "x"), Engine::virtual_fluid);
}

}  // namespace
}  // namespace causeway::wan_sim
