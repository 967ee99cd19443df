#include "apps/run/simulate/monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/apps/temporary.h"
#include "tests/support/process_limits.h"

namespace causeway::run {
namespace {

class MonitorTest : public testing::Test {
 protected:
  MonitorTest()
      : config_(load_text(kSmallConfig)),
        run_(directory_ / "run", config_, false),
        monitor_(config_, run_) {}

  void write_status(const std::string& where, int version, int step, int sent) {
    directory_.write(
        "run/" + where + "/status.json",
        nlohmann::json{{"version", version},
                       {"wan_tx_bytes", sent},
                       {"progress", {{"step", step}, {"loss", 3.5}, {"phase", "compute"}}},
                       {"reported_unix_s", 1e9}}
            .dump());
  }

  TemporaryDirectory directory_;
  Config config_;
  RunDirectory run_;
  Monitor monitor_;
};

TEST_F(MonitorTest, ShowsRegionsAsStartingUntilTheySaySomething) {
  const View& view = monitor_.observe_training(0.1, 0);
  ASSERT_EQ(view.regions.size(), 2U);
  EXPECT_EQ(view.regions[0].state, "starting");
  EXPECT_LT(view.remaining_s, 0);
}

TEST_F(MonitorTest, AddsUpTheWanAndKnowsTheVersions) {
  write_status("regions/east", 3, 60, 1000);
  write_status("regions/west", 2, 55, 500);
  const View& view = monitor_.observe_training(1, 4);
  EXPECT_EQ(view.round, 3U);
  EXPECT_EQ(view.rounds, 10U);
  EXPECT_EQ(view.wan_bytes, 1500U);
  EXPECT_EQ(view.restarts, 4U);
  EXPECT_EQ(monitor_.version("west"), 2U);
}

TEST_F(MonitorTest, AStatusThatCannotBeReadIsShownAsItWas) {
  write_status("regions/east", 3, 60, 1000);
  monitor_.observe_training(1, 0);
  const auto file = directory_ / "run/regions/east/status.json";
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);  // that one cannot be read as a file is an error, too
  EXPECT_EQ(monitor_.observe_training(2, 0).regions[0].step, 60U);
}

TEST_F(MonitorTest, WhatAWorkerDidInAnEarlierSessionIsNotWorkOfThisOne) {
  const auto status = [&](int pid, const nlohmann::json& reported_unix_s) {
    const nlohmann::json json = {
        {"pid", pid}, {"progress", {{"phase", "compute"}}}, {"reported_unix_s", reported_unix_s}};
    directory_.write("run/regions/east/status.json", json.dump());
  };
  status(100, 1e9);
  const Monitor later(config_, run_);
  EXPECT_TRUE(monitor_.has_worked("east"));
  EXPECT_FALSE(later.has_worked("east"));
  status(200, nullptr);
  EXPECT_FALSE(later.has_worked("east")) << "a coordinator alone";
  status(200, 2e9);
  EXPECT_TRUE(later.has_worked("east"));
  EXPECT_FALSE(later.has_worked("west"));
}

TEST_F(MonitorTest, AWorkerHasWorkedEvenIfItsCoordinatorForgot) {
  write_status("regions/east", 1, 20, 0);
  monitor_.observe_training(1, 0);
  directory_.write("run/regions/east/status.json", "{}");
  EXPECT_TRUE(monitor_.has_worked("east"));
}

TEST_F(MonitorTest, LinksAreShownAsTheyWereWhenTheRunEnded) {
  const auto status = [&](const std::string& region, const char* peer, bool up, bool finished) {
    const nlohmann::json json = {{"finished", finished}, {"links", {{peer, {{"up", up}}}}}};
    directory_.write("run/regions/" + region + "/status.json", json.dump());
  };
  status("east", "west", true, false);
  status("west", "east", true, false);
  monitor_.observe_training(1, 0);
  status("east", "west", false, false);  // the other one closed it
  status("west", "east", false, true);
  for (const RegionView& region : monitor_.observe_training(2, 0).regions) {
    ASSERT_EQ(region.links.size(), 1U);
    EXPECT_TRUE(region.links[0].up) << region.name;
  }
}

TEST_F(MonitorTest, RateIsThatOfTheLastSeconds) {
  write_status("regions/east", 1, 20, 0);
  for (int second = 0; second < 10; ++second) monitor_.observe_training(second, 0);
  write_status("regions/east", 1, 20, 6000);
  EXPECT_DOUBLE_EQ(monitor_.observe_training(10, 0).wan_bytes_per_s,
                   1500);  // in the last four seconds
}

TEST_F(MonitorTest, RemainingTimeFollowsFromThisSessionsSteps) {
  write_status("regions/east", 5, 100, 0);
  write_status("regions/west", 5, 100, 0);
  monitor_.observe_training(1000, 0);  // resumed half-way
  write_status("regions/east", 6, 120, 0);
  write_status("regions/west", 6, 120, 0);
  EXPECT_NEAR(monitor_.observe_training(1010, 0).remaining_s, 40, 1e-9);
}

TEST_F(MonitorTest, KeepsOneSamplePerRoundOrSecond) {
  for (int i = 0; i < 8; ++i) {
    write_status("regions/east", 1, 20 + i, 100);
    monitor_.observe_training(1 + i * 0.25, 0);
  }
  write_status("regions/east", 2, 40, 200);
  monitor_.observe_training(2.8, 0);
  const std::vector<Sample> samples = read_samples(run_.progress_file());
  std::vector<double> times;
  for (const Sample& sample : samples) times.push_back(sample.time_s);
  EXPECT_THAT(times, testing::ElementsAre(1, 2, 2.8));
}

TEST_F(MonitorTest, BaselineIsKeptAsOneSeries) {
  write_status("baseline/east", 0, 10, 0);
  write_status("baseline/west", 0, 10, 0);
  const View& view = monitor_.observe_baseline(3, false);
  EXPECT_EQ(view.phase, "synchronous baseline");
  EXPECT_EQ(view.rounds, 0U);
  const std::vector<Sample> samples = read_samples(run_.progress_file());
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_EQ(samples[0].region, "baseline");
}

TEST_F(MonitorTest, BaselineOfOneProcessIsShownAsThatOfAllRegions) {
  monitor_.observe_training(1, 0);
  write_status("baseline/east", 0, 10, 0);
  const View& view = monitor_.observe_baseline(3, true);
  ASSERT_EQ(view.regions.size(), 1U);
  EXPECT_EQ(view.regions[0].name, "all regions");
  EXPECT_EQ(view.regions[0].step, 10U);
}

TEST_F(MonitorTest, WhatAFullDiskRefusesIsKeptOnceThereIsRoom) {
  write_status("regions/east", 1, 20, 1000);
  {
    const test::FullDisk full(1);
    monitor_.observe_training(1, 0);
    EXPECT_THAT(monitor_.observe_training(2, 0).notes,
                testing::ElementsAre(testing::HasSubstr("was not written: cannot write")));
  }
  write_status("regions/east", 2, 40, 2000);
  monitor_.observe_training(3, 0);
  monitor_.observe_training(4, 0);
  EXPECT_THAT(
      read_samples(run_.progress_file()),
      testing::ElementsAre(testing::Field(&Sample::step, 20U), testing::Field(&Sample::step, 40U)));
  EXPECT_THAT(monitor_.files().list(), testing::IsEmpty());
  EXPECT_THAT(monitor_.observe_training(5, 0).notes,
              testing::ElementsAre(testing::_, testing::HasSubstr("are written again")));
}

}  // namespace
}  // namespace causeway::run
