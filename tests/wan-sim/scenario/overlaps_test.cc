#include "wan-sim/scenario/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::wan_sim {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

const Pair kThere{"a", "b"}, kBack{"b", "a"};

// The state of one link as an engine keeps it, by the actions of a timeline.
class OverlapsTest : public testing::Test {
 protected:
  void with(const std::string& events) {
    scenario_ = parse_scenario(
        "regions = ['a', 'b']\n[defaults]\nrtt_ms = 10\nrate_mbit_s = 80\n" + events, "test.toml");
    timeline_.emplace(scenario_);
    profile_ = scenario_.links.at(kThere);
  }
  void until(Time time) {
    for (const TimedAction& due : timeline_->take(time)) obey(due.action);
  }
  double rate_at(Time time) {
    until(time);
    return profile_.rate_bytes_per_s * 8 / 1e6;
  }
  bool hole_at(Time time) {
    until(time);
    return hole_;
  }
  std::vector<std::string> done_at(Time time) {
    processes_.clear();
    until(time);
    return processes_;
  }

  Scenario scenario_;
  std::optional<Timeline> timeline_;
  Time slow_close_{0};

 private:
  void obey(const Action& action) {
    if (const auto* process = std::get_if<ProcessAction>(&action.what)) note(*process);
    if (std::ranges::count(action.links, kThere) == 0) return;
    if (const auto changed = changed_profile(action, profile_, scenario_.links.at(kThere))) {
      profile_ = *changed;
    }
    if (const auto* fault = std::get_if<Fault>(&action.what)) {
      if (fault->kind == FaultKind::black_hole) hole_ = true;
      if (fault->kind == FaultKind::slow_close) slow_close_ = fault->length;
    }
    if (const auto* heal = std::get_if<Heal>(&action.what)) {
      if (!heal->kind || *heal->kind == FaultKind::black_hole) hole_ = false;
      if (!heal->kind || *heal->kind == FaultKind::slow_close) slow_close_ = Time{0};
    }
  }
  static std::string name(const ProcessTarget& target) {
    return std::string(kProcessRoles[static_cast<std::size_t>(target.role)]) +
           (target.rank ? " " + std::to_string(*target.rank) : "");
  }
  void note(const ProcessAction& process) {
    std::string text(kProcessVerbs[static_cast<std::size_t>(process.verb)]);
    text += " " + name(process.target);
    for (const ProcessTarget& spared : process.spared) text += " not " + name(spared);
    processes_.push_back(text);
  }

  LinkProfile profile_;
  bool hole_ = false;
  std::vector<std::string> processes_;
};

TEST_F(OverlapsTest, TheInnerEventsEndLeavesTheOuterOneInForce) {
  with(
      "[[event]]\nat_s = 10\nfor_s = 10\nrate_mbit_s = 8\n"
      "[[event]]\nat_s = 12\nfor_s = 2\nlink = ['a', 'b']\nrate_mbit_s = 1\n");
  EXPECT_EQ(rate_at(11s), 8);
  EXPECT_EQ(rate_at(13s), 1);
  EXPECT_EQ(rate_at(15s), 8);
  EXPECT_EQ(rate_at(20s), 80);
}

TEST_F(OverlapsTest, TheOuterEventsEndLeavesTheLaterOneInForce) {
  with(
      "[[event]]\nat_s = 10\nfor_s = 10\nrate_mbit_s = 8\n"
      "[[event]]\nat_s = 15\nfor_s = 10\nrate_mbit_s = 1\n");
  EXPECT_EQ(rate_at(20s), 1);
  EXPECT_EQ(rate_at(25s), 80);
}

TEST_F(OverlapsTest, AnEventEndsWithWhatAnUntimedOneHadSet) {
  with(
      "[[event]]\nat_s = 5\nrate_mbit_s = 40\n"
      "[[event]]\nat_s = 10\nfor_s = 5\nrate_mbit_s = 1\n");
  EXPECT_EQ(rate_at(10s), 1);
  EXPECT_EQ(rate_at(15s), 40);
}

TEST_F(OverlapsTest, AnUntimedEventIsTheLastWord) {
  with(
      "[[event]]\nat_s = 10\nfor_s = 10\nrate_mbit_s = 1\n"
      "[[event]]\nat_s = 12\nrate_mbit_s = 40\n");
  EXPECT_EQ(rate_at(12s), 40);
  EXPECT_EQ(rate_at(20s), 40);
}

TEST_F(OverlapsTest, AnEventHoldsAgainstTheTraceAndEndsWithItsPresentStep) {
  with("[[event]]\nat_s = 1\nfor_s = 2.5\nrate_mbit_s = 1\n");
  Trace trace{{}, 4s};
  for (int i = 0; i < 4; ++i) trace.steps.push_back({i * 1s, {{"rate_mbit_s", 10.0 + i}}});
  scenario_.traces[kThere] = trace;
  timeline_.emplace(scenario_);
  EXPECT_EQ(rate_at(500ms), 10);
  EXPECT_EQ(rate_at(2500ms), 1);
  EXPECT_EQ(rate_at(3500ms), 13);
  EXPECT_EQ(rate_at(4s), 10);
}

TEST_F(OverlapsTest, ABlackHoleEndsWithTheLastThatWantsIt) {
  with(
      "[[event]]\nat_s = 1\nfor_s = 10\nfault = 'black-hole'\n"
      "[[event]]\nat_s = 3\nfault = 'flap'\nperiod_s = 2\ndown_s = 1\ntimes = 2\n");
  EXPECT_TRUE(hole_at(4s));
  EXPECT_TRUE(hole_at(10s));
  EXPECT_FALSE(hole_at(11s));
}

TEST_F(OverlapsTest, HealEndsAllAndWhatBeginsLaterIsNotEndedByWhatWasHealed) {
  with(
      "[[event]]\nat_s = 1\nfor_s = 10\nfault = 'black-hole'\n"
      "[[event]]\nat_s = 2\nfault = 'heal'\n"
      "[[event]]\nat_s = 3\nfault = 'black-hole'\n");
  EXPECT_FALSE(hole_at(2s));
  EXPECT_TRUE(hole_at(20s));
}

TEST_F(OverlapsTest, ASlowCloseGoesBackToTheOuterOnesLength) {
  with(
      "[[event]]\nat_s = 1\nfor_s = 9\nfault = 'slow-close'\nclose_ms = 700\n"
      "[[event]]\nat_s = 2\nfor_s = 2\nfault = 'slow-close'\nclose_ms = 30\n");
  until(3s);
  EXPECT_EQ(slow_close_, 30ms);
  until(4s);
  EXPECT_EQ(slow_close_, 700ms);
  until(10s);
  EXPECT_EQ(slow_close_, 0ms);
}

TEST_F(OverlapsTest, ARegionIsRestartedByTheLastKillThatEnds) {
  with(
      "[[event]]\nat_s = 1\nfor_s = 9\nprocess = 'kill'\nregion = 'a'\n"
      "[[event]]\nat_s = 2\nfor_s = 2\nprocess = 'kill'\nregion = 'a'\nrole = 'worker'\n"
      "[[event]]\nat_s = 8\nfor_s = 6\nprocess = 'kill'\nregion = 'a'\nrole = 'worker'\nrank = "
      "1\n");
  EXPECT_THAT(done_at(3s), ElementsAre("kill any", "kill worker"));
  EXPECT_THAT(done_at(9s), ElementsAre("kill worker 1"));
  EXPECT_THAT(done_at(10s), ElementsAre("restart any not worker 1"));
  EXPECT_THAT(done_at(14s), ElementsAre("restart worker 1"));
}

TEST_F(OverlapsTest, WhatWasRestartedByAnEventIsNotRestartedByTheKillsEnd) {
  with(
      "[[event]]\nat_s = 1\nfor_s = 9\nprocess = 'kill'\nregion = 'a'\n"
      "[[event]]\nat_s = 2\nprocess = 'restart'\nregion = 'a'\nrole = 'coordinator'\n");
  EXPECT_THAT(done_at(2s), ElementsAre("kill any", "restart coordinator"));
  EXPECT_THAT(done_at(10s), ElementsAre("restart any not coordinator"));
}

TEST_F(OverlapsTest, APauseInsideAKillIsResumedByItself) {
  with(
      "[[event]]\nat_s = 1\nfor_s = 9\nprocess = 'kill'\nregion = 'a'\n"
      "[[event]]\nat_s = 2\nfor_s = 2\nprocess = 'pause'\nregion = 'a'\n");
  EXPECT_THAT(done_at(4s), ElementsAre("kill any", "pause any", "resume any"));
  EXPECT_THAT(done_at(10s), ElementsAre("restart any"));
}

}  // namespace
}  // namespace causeway::wan_sim
