// What surrounds the rehearsals of a tuning: links, recordings, calibrations, reports.
#include "apps/run/tune.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/run/config_source.h"
#include "apps/run/region_files.h"
#include "apps/run/tune_links.h"
#include "apps/run/tune_plan.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

using testing::HasSubstr;
using testing::Not;

const char* const kConfig = R"(
[run]
name = "small"
[model]
layers = 1
width = 16
heads = 2
context = 8
vocabulary = 16
[data]
files = ["none.txt"]
[train]
steps = 1200
k = 10
timed_step_ms = 1
[[regions]]
name = "us"
[[regions]]
name = "eu"
)";

Config config(const std::vector<std::string>& overrides = {}) {
  return load_config_text(kConfig, "test.toml", overrides);
}

const char* const kLinks = "regions = ['us', 'eu']\n[defaults]\nrtt_ms = 100\nrate_mbit_s = 10\n";

class TuneTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) {
    const auto file = directory_.path() / name;
    std::filesystem::create_directories(file.parent_path());
    write_text_file(file, text);
    return file;
  }
  TuneOptions options() {
    TuneOptions options;
    options.config = write("config.toml", kConfig);
    options.links = write("links.toml", kLinks);
    options.cache = directory_.path() / "cache";
    options.step_s = 0.05;
    options.rounds = 4;
    options.grid.ks = {10, 20, 40};
    return options;
  }
  Tuning tuned(const TuneOptions& options) {
    return tune(options, [](const std::string&) {});
  }
  TemporaryDirectory directory_;
};

TEST_F(TuneTest, RehearsesEveryChoiceAndRecommendsOne) {
  const Tuning tuning = tuned(options());
  EXPECT_EQ(tuning.forecast.rows.size(), 3U * 2 * 3);  // K, codecs, variants
  ASSERT_TRUE(tuning.recommendation);
  for (const auto& row : tuning.forecast.rows) {
    EXPECT_TRUE(row.complete);
    EXPECT_GE(row.round_s, row.k * 0.05);
  }
  EXPECT_EQ(tuning.confidence, "low");
  EXPECT_THAT(tuning.warnings, testing::Contains(HasSubstr("published prices of K")));
}

TEST_F(TuneTest, PrintsTheKeysThatScriptsRelyOn) {
  const auto json = nlohmann::json::parse(tuning_json(tuned(options())));
  EXPECT_TRUE(json.at("recommended_k").is_number_unsigned());
  EXPECT_EQ(json.at("interval").size(), 2U);
  EXPECT_TRUE(json.at("confidence").is_string());
  for (const auto& row : json.at("rows")) {
    for (const char* key : {"k", "codec", "variant", "predicted_round_s", "measured_round_s",
                            "predicted_utilisation", "predicted_time_to_loss_s"}) {
      EXPECT_TRUE(row.contains(key)) << key;
    }
    EXPECT_TRUE(row.at("measured_round_s").is_null());
  }
}

TEST_F(TuneTest, ThePageNeedsNothingFromOutside) {
  const std::string page = tuning_html(tuned(options()));
  EXPECT_THAT(page, HasSubstr("<svg"));
  for (const char* outside : {"http:", "https:", "src=", "<link", "@import", "<script"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
}

TEST_F(TuneTest, ASlowRegionIsGivenByName) {
  TuneOptions slow = options();
  slow.region_step_s = {"eu=100"};
  const double twice = tuned(slow).forecast.rows.back().round_s;
  EXPECT_GT(twice, 1.5 * tuned(options()).forecast.rows.back().round_s);
  slow.region_step_s = {"asia=100"};
  EXPECT_THROW(tuned(slow), ConfigError);
}

TEST_F(TuneTest, ARegionThatIsNoneIsRefusedBeforeAnythingIsMeasured) {
  TuneOptions asked = options();
  asked.region_step_s = {"mars=5"};
  std::string notes;
  EXPECT_THROW(tune(asked, [&notes](const std::string& note) { notes += note; }), ConfigError);
  EXPECT_EQ(notes, "");
}

TEST_F(TuneTest, TrafficCostsWhatTheTableSays) {
  TuneOptions priced = options();
  priced.prices =
      write("prices.toml", "default_per_gb = 1\n[[price]]\nfrom = 'us'\nto = 'eu'\nper_gb = 3\n");
  const Tuning tuning = tuned(priced);
  const auto& row = tuning.forecast.rows.front();
  EXPECT_NEAR(row.cost_per_round, double(tuning.probe.codecs.front().payload_bytes) / 1e9 * 4,
              1e-12);
  EXPECT_GT(row.cost_to_loss, 0);
  EXPECT_THROW(load_prices(write("bad.toml", "[[price]]\nfrom = 'us'\n")), ConfigError);
}

TEST_F(TuneTest, LinksMayBeThoseThatCoordinatorsMeasured) {
  write("run/regions/us/status.json",
        R"({"links": {"eu": {"round_trip_ms": 80.0, "rate_mbit_s": 50.0}}})");
  write("run/regions/eu/status.json",
        R"({"links": {"us": {"round_trip_ms": 80.0, "rate_mbit_s": 0.0}}})");
  const auto links =
      link_matrix(links_of_run(directory_.path() / "run", {"us", "eu"}), {"us", "eu"});
  EXPECT_NEAR(links.at({"us", "eu"}).latency_s, 0.04, 1e-9);
  EXPECT_NEAR(links.at({"us", "eu"}).bytes_per_s, 6.25e6, 1);
  EXPECT_NEAR(links.at({"eu", "us"}).bytes_per_s, 6.25e6, 1);  // from the other direction
  EXPECT_THROW(links_of_run(directory_.path() / "run", {"us", "asia"}), ConfigError);
}

TEST(TuneLinks, ARingIsOrderedToAvoidTheSlowestLink) {
  const auto scenario = wan_sim::parse_scenario(
      "regions = ['a', 'b', 'c', 'd']\n[defaults]\nrtt_ms = 0\nrate_mbit_s = 80\n"
      "[[link]]\na = 'a'\nb = 'b'\nrtt_ms = 0\nrate_mbit_s = 8\n",
      "test.toml");
  const std::vector<std::string> regions = {"a", "b", "c", "d"};
  // 2 (R - 1) pieces of a quarter of 40 MB at 10 MB/s.
  EXPECT_NEAR(ring_all_reduce_s(link_matrix(scenario, regions), regions, 40e6), 6, 1e-9);
}

TEST(TuneGrid, HoldsKItsHalfAndItsDouble) {
  const auto ks = k_grid(30, 0.1, 1);
  EXPECT_THAT(ks, testing::IsSupersetOf({15U, 30U, 60U}));
  EXPECT_GE(ks.size(), 7U);
  EXPECT_THAT(k_grid(1, 1, 0.001), testing::Contains(1U));
}

TEST(TuneCalibration, IsKeptForTheSameModelAndDataWhateverKAndSeed) {
  const std::string key = calibration_key(config());
  EXPECT_EQ(key, calibration_key(config({"train.k=20", "run.seed=7", "train.steps=2400"})));
  EXPECT_NE(key, calibration_key(config({"model.width=32"})));
  EXPECT_NE(key, calibration_key(config({"codec.matrix=dense:fp16"})));
}

TEST_F(TuneTest, EarlierCalibrationsAreUsed) {
  TuneOptions cached = options();
  std::string lines;
  for (int seed = 1; seed <= 3; ++seed) {
    const double noise = 0.001 * seed;
    for (const auto& [k, steps, loss] :
         {std::tuple{10, 800, 2.0}, {40, 800, 2.04}, {10, 400, 2.2}}) {
      lines +=
          nlohmann::json{{"k", k}, {"steps", steps}, {"seed", seed}, {"val_loss", loss + noise}}
              .dump() +
          "\n";
    }
  }
  write("cache/" + calibration_key(load_config(cached.config, {})) + ".jsonl", lines);
  const Tuning tuning = tuned(cached);
  EXPECT_EQ(tuning.calibration.triples, 3U);
  EXPECT_NEAR(tuning.price.lambda, 0.04 / std::log(4) / (0.2 / std::log(2)), 1e-6);
  EXPECT_EQ(tuning.price.k_reference, 10);
}

std::string recorded_rounds(double compute_s, double round_s, int rounds) {
  std::string lines;
  for (int i = 0; i < rounds; ++i) {
    lines += nlohmann::json{{"round", i},
                            {"participants", {"us", "eu"}},
                            {"compute_s", compute_s * (i + 1)},
                            {"time_unix_s", 1000 + round_s * (i + 1)}}
                 .dump() +
             "\n";
  }
  return lines;
}

TEST_F(TuneTest, ARecordedRunIsReplayedUnderOtherLinks) {
  const auto run = directory_.path() / "run";
  write("run/config.toml",
        kConfig + std::string("[wan]\nprofile = '") + write("links.toml", kLinks).string() + "'\n");
  write("run/regions/us/events.jsonl", recorded_rounds(0.5, 0.9, 12));
  write("run/regions/eu/events.jsonl", recorded_rounds(0.4, 0.9, 12));
  const Recording recording = read_recording(run, config());
  EXPECT_NEAR(recording.step_s.at("us"), 0.05, 1e-9);
  EXPECT_NEAR(recording.step_s.at("eu"), 0.04, 1e-9);
  EXPECT_NEAR(recording.round_s, 0.9, 1e-6);

  TuneOptions asked;
  asked.cache = directory_.path() / "cache";
  asked.grid.ks = {20};
  const auto note = [](const std::string&) {};
  const Tuning same = plan(asked, run, note);
  const auto& recorded = same.forecast.rows.front();
  EXPECT_EQ(recorded.k, 10U);
  EXPECT_NEAR(recorded.measured_round_s.value(), 0.9, 1e-6);
  EXPECT_NEAR(recorded.round_s, 0.9, 0.03);
  asked.links =
      write("far.toml", "regions = ['us', 'eu']\n[defaults]\nrtt_ms = 600\nrate_mbit_s = 10\n");
  const Tuning far = plan(asked, run, note);
  EXPECT_GT(far.forecast.rows.front().round_s, recorded.round_s + 0.5);
  EXPECT_FALSE(far.forecast.rows.front().measured_round_s);
}

TEST_F(TuneTest, ARecordingOfTooFewRoundsIsRefused) {
  write("run/regions/us/events.jsonl", recorded_rounds(0.5, 0.9, 2));
  EXPECT_THROW(read_recording(directory_.path() / "run", config()), ConfigError);
}

}  // namespace
}  // namespace causeway::run
