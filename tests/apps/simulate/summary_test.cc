#include "apps/run/simulate/summary.h"

#include <cmath>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "intra/outer/state_file.h"
#include "intra/worker/worker_result.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

using Json = nlohmann::json;

std::string event(int round, const std::string& region, const std::string& state) {
  return Json{{"round", round},
              {"region", region},
              {"participants", Json::array()},
              {"state", state}}
             .dump() +
         "\n";
}

// What a run of ten rounds leaves behind.
class SummaryTest : public testing::Test {
 protected:
  SummaryTest() : config_(load_text(kSmallConfig)) {
    for (const RegionConfig& region : config_.regions) {
      std::string events;
      for (int round = 0; round < 10; ++round)
        events += event(round, region.name, "s" + std::to_string(round));
      directory_.write("regions/" + region.name + "/events.jsonl", events);
      write_result("regions/" + region.name, 1.75, "abc");
      write_status(region.name, region.name == "east" ? 3000 : 2000);
    }
  }

  void write_result(const std::string& where, double val_loss, const std::string& digest) {
    std::filesystem::create_directories(directory_ / where);
    diloco::Progress end;
    end.set_step(200);
    end.set_tokens(51'200);
    end.set_round(10);
    end.set_val_loss(val_loss);
    end.set_compute_s(30);
    end.set_wait_s(10);
    end.set_tokens_per_s(1'706.7);
    intra::write_result(directory_ / where,
                        {.progress = end, .run_steps = 200, .params_digest = digest});
  }
  void write_status(const std::string& region, std::uint64_t sent) {
    directory_.write(
        "regions/" + region + "/status.json",
        Json{{"version", 10}, {"wan_tx_bytes", sent}, {"wan_rx_bytes", 5000 - sent}}.dump());
  }
  Summary summary() {
    return summarize(config_, directory_.path(), {.wall_s = 60, .cores = 2, .wan = "none"});
  }

  TemporaryDirectory directory_;
  Config config_;
};

TEST_F(SummaryTest, AddsUpWhatTheRegionsLeft) {
  const Summary s = summary();
  EXPECT_EQ(s.wan_bytes, 5000U);
  EXPECT_EQ(s.rounds, 10U);
  EXPECT_EQ(s.val_loss, 1.75);
  EXPECT_TRUE(s.identical);
  EXPECT_EQ(s.regions[0].name, "east");
  EXPECT_EQ(s.regions[0].result.utilisation(), 0.75);
  EXPECT_EQ(s.regions[1].wan_rx_bytes, 3000U);
  EXPECT_FALSE(s.baseline_val_loss);
  EXPECT_EQ(s.wan_bytes_if_synced_every_step, 2 * 4 * s.parameters * 200);
}

TEST_F(SummaryTest, JsonHasTheFieldsThatScriptsRelyOn) {
  write_result("baseline/east", 1.7, "xyz");
  const Json json = Json::parse(to_json(summary()));
  for (const char* field :
       {"parameters", "k", "codec", "wall_s", "rounds", "val_loss", "baseline_val_loss",
        "wan_bytes", "wan_bytes_if_synced_every_step", "identical", "regions", "timed_steps",
        "restarts", "baseline_wall_s", "wan", "seed", "val_loss_ratio"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  for (const char* field : {"name", "steps", "tokens", "val_loss", "wan_tx_bytes", "wan_rx_bytes",
                            "compute_s", "wait_s", "utilisation", "params_digest"}) {
    EXPECT_TRUE(json["regions"][0].contains(field)) << field;
  }
  EXPECT_EQ(json["baseline_val_loss"], 1.7);
  EXPECT_NEAR(json["val_loss_ratio"], 1.75 / 1.7, 1e-12);
}

TEST_F(SummaryTest, BaselineIsNullWhenSkipped) {
  const Json json = Json::parse(to_json(summary()));
  EXPECT_TRUE(json["baseline_val_loss"].is_null());
  EXPECT_TRUE(json["val_loss_ratio"].is_null());
}

TEST_F(SummaryTest, OfAProgramLeavesOutWhatNobodyMeasured) {
  config_.data.files.clear();
  const diloco::Layout layout({{"a", {2, 3}}, {"b", {4}}});
  intra::OuterState state(layout);
  for (const RegionConfig& region : config_.regions) {
    const auto directory = directory_ / ("regions/" + region.name);
    diloco::Progress end;
    end.set_step(200);
    end.set_round(10);
    intra::write_result(directory, {.progress = end, .params_digest = "abc"});
    std::filesystem::create_directories(directory / "checkpoints");
    intra::write_snapshot(intra::snapshot_file(directory), layout, state);
  }
  const Summary s = summarize(config_, directory_.path(), {.wan = "none", .worker = "./train"});
  EXPECT_EQ(s.parameters, 10U);
  EXPECT_TRUE(s.identical);
  const std::string text = to_json(s);
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("null")));
  const Json json = Json::parse(text);
  EXPECT_EQ(json.at("worker"), "./train");
  for (const char* absent : {"val_loss", "baseline_val_loss", "baseline_wall_s", "timed_steps"})
    EXPECT_FALSE(json.contains(absent)) << absent;
  EXPECT_FALSE(json.at("regions")[0].contains("mfu"));
}

TEST_F(SummaryTest, OtherParametersAtTheEndAreNotIdentical) {
  write_result("regions/west", 1.75, "abd");
  EXPECT_FALSE(summary().identical);
}

TEST_F(SummaryTest, AnotherStateInOneRoundIsNotIdentical) {
  std::string events;
  for (int round = 0; round < 10; ++round)
    events += event(round, "west", round == 4 ? "x" : "s" + std::to_string(round));
  directory_.write("regions/west/events.jsonl", events);
  EXPECT_FALSE(summary().identical);
}

TEST_F(SummaryTest, ARoundThatOneRegionDidNotApplyIsNotIdentical) {
  std::string events;
  for (int round = 0; round < 9; ++round)
    events += event(round, "west", "s" + std::to_string(round));
  directory_.write("regions/west/events.jsonl", events);
  EXPECT_FALSE(summary().identical);
}

// A stream that fails in the middle of a file looks like one that is at its end.
TEST_F(SummaryTest, EventsThatCannotBeReadAreNoLackOfThem) {
  std::filesystem::remove(directory_ / "regions/west/events.jsonl");
  std::filesystem::create_directory(directory_ / "regions/west/events.jsonl");
  try {
    summary();
    FAIL() << "it was made";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("west/events.jsonl"));
  }
  EXPECT_THROW(read_text_file(directory_ / "regions/west/events.jsonl"), std::system_error);
}

TEST_F(SummaryTest, RoundsSkippedByASnapshotDoNotCount) {
  std::string events = R"({"event": "restore", "region": "west", "round": 5})"
                       "\n";
  for (int round = 5; round < 10; ++round)
    events += event(round, "west", "s" + std::to_string(round));
  directory_.write("regions/west/events.jsonl", events);
  EXPECT_TRUE(summary().identical);
  EXPECT_EQ(summary().regions[1].rounds_applied, 5U);
}

TEST_F(SummaryTest, ASnapshotMayBeOfTheLastVersion) {
  directory_.write("regions/west/events.jsonl",
                   R"({"event": "restore", "region": "west", "round": 10})"
                   "\n");
  EXPECT_TRUE(summary().identical);
  write_result("regions/west", 1.75, "abd");
  EXPECT_FALSE(summary().identical) << "what counts is what it holds";
}

TEST_F(SummaryTest, ARoundAppliedAgainWithAnotherOutcomeIsNotIdentical) {
  directory_.write(
      "regions/west/events.jsonl",
      read_text_file(directory_ / "regions/west/events.jsonl") + event(2, "west", "x"));
  EXPECT_FALSE(summary().identical);
}

// A contribution was taken out of round 8: what came of it and of round 9 before counts no more.
TEST_F(SummaryTest, ARoundAppliedAgainCountsAsItWasTheLastTime) {
  std::string events;
  for (int round = 0; round < 8; ++round)
    events += event(round, "west", "s" + std::to_string(round));
  events += event(8, "west", "x8") + event(9, "west", "x9");
  directory_.write("regions/west/events.jsonl",
                   events + event(8, "west", "s8") + event(9, "west", "s9"));
  EXPECT_TRUE(summary().identical);
  EXPECT_EQ(summary().regions[1].rounds_applied, 10U);
  merge_events(config_, directory_.path());
  const std::string merged = read_text_file(directory_ / "events.jsonl");
  EXPECT_THAT(merged, testing::HasSubstr("\"s9\""));
  EXPECT_THAT(merged, testing::Not(testing::HasSubstr("\"x9\"")));
}

TEST_F(SummaryTest, AMissingResultIsNamed) {
  std::filesystem::remove(directory_ / "regions/west/result.json");
  try {
    summary();
    FAIL() << "must throw";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("regions/west/result.json"));
  }
}

TEST_F(SummaryTest, EventsAreMergedByRoundAndRegion) {
  append_restarts(directory_ / "restarts.jsonl", {{"west worker 0", 3, "killed", 12.5, ""}});
  directory_.write("regions/west/events.jsonl",
                   read_text_file(directory_ / "regions/west/events.jsonl") +
                       event(2, "west", "s2") + "{\"half\n" +
                       R"({"event": "peer_down", "region": "west", "round": 9})" + "\n");
  merge_events(config_, directory_.path());
  std::vector<std::string> order;
  for (const Event& event : read_events(directory_ / "events.jsonl")) {
    order.push_back(std::to_string(event.round) + " " + event.event + " " + event.region);
  }
  ASSERT_EQ(order.size(), 22U);
  EXPECT_EQ(order[0], "0 round east");
  EXPECT_EQ(order[1], "0 round west");
  EXPECT_EQ(order[8], "3 restart ");
  EXPECT_EQ(order[9], "4 round east");
  EXPECT_EQ(order[21], "9 peer_down west");
}

TEST(RingAllReduce, SendsEveryGradientAlmostTwicePerRegion) {
  EXPECT_EQ(ring_all_reduce_bytes(1'000, 3, 10), 160'000U);
  EXPECT_EQ(ring_all_reduce_bytes(1'000, 1, 10), 0U);
}

TEST(RegionFiles, StatusOfACoordinatorIsRead) {
  const TemporaryDirectory directory;
  directory.write("status.json", R"json({
      "region": "east", "version": 7, "waiting": "west (no contribution yet)",
      "progress": {"step": 140, "loss": 2.5, "tokens_per_s": 900.5, "phase": "wait"},
      "wan_tx_bytes": 10, "wan_rx_bytes": 20,
      "links": {"west": {"up": true, "tx_bytes": 1, "rx_bytes": 2, "round_trip_ms": 70.5}}})json");
  const auto status = read_status(directory.path());
  ASSERT_TRUE(status);
  EXPECT_EQ(status->version, 7U);
  EXPECT_EQ(status->progress.step(), 140U);
  EXPECT_EQ(status->state(), "waits for west (no contribution yet)");
  EXPECT_EQ(status->wan_tx_bytes, 10U);
  EXPECT_TRUE(status->links.at("west").up);
  EXPECT_EQ(status->links.at("west").round_trip_ms, 70.5);
}

TEST(RegionFiles, DamagedFilesAreAsGoodAsMissing) {
  const TemporaryDirectory directory;
  EXPECT_FALSE(read_status(directory.path()));
  directory.write("status.json", "{\"version\": ");
  EXPECT_FALSE(read_status(directory.path()));
  directory.write("status.json", R"({"version": "seven", "progress": 3, "links": [1]})");
  EXPECT_EQ(read_status(directory.path())->version, 0U);
  directory.write("listening_port", "70000\n");
  EXPECT_FALSE(read_listening_port(directory.path()));
  directory.write("listening_port", "4711\n");
  EXPECT_EQ(read_listening_port(directory.path()), 4711);
}

// Else a disk that fails once would end the simulator, whose links ask for it.
TEST(RegionFiles, APortThatCannotBeReadIsNotKnown) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path() / "listening_port");
  EXPECT_FALSE(read_listening_port(directory.path()));
}

TEST(RegionFiles, SamplesComeBackAsTheyWereKept) {
  const TemporaryDirectory directory;
  append_samples(directory / "progress.jsonl", {{1.5, "east", 10, 1, 99, 2.25, 100}});
  append_samples(directory / "progress.jsonl", {{2.5, "west", 11, 1, 98, 2.5, 101}});
  const auto samples = read_samples(directory / "progress.jsonl");
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[1].region, "west");
  EXPECT_EQ(samples[1].wan_tx_bytes, 98U);
  EXPECT_EQ(samples[0].loss, 2.25);
}

TEST(RegionFiles, ALossMayBeZeroOrLessAndNotBeKnown) {
  const TemporaryDirectory directory;
  for (const std::optional<double> loss : {std::optional(0.0), std::optional(-1.5), {}})
    append_samples(directory / "progress.jsonl", {{.region = "east", .step = 1, .loss = loss}});
  const auto samples = read_samples(directory / "progress.jsonl");
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples[0].loss, 0.0);
  EXPECT_EQ(samples[1].loss, -1.5);
  EXPECT_FALSE(samples[2].loss);
  diloco::Progress progress;
  EXPECT_FALSE(loss_of(progress));
  progress.set_loss(NAN);
  EXPECT_FALSE(loss_of(progress));
  progress.set_loss(-1.5);
  EXPECT_EQ(loss_of(progress), -1.5);
}

}  // namespace
}  // namespace causeway::run
