// What surrounds the rehearsals of a tuning: links, recordings, calibrations, reports.
#include "apps/run/tune/tune.h"

#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/run/config/parsed_config.h"
#include "apps/run/region/region_files.h"
#include "apps/run/tune/calibration.h"
#include "apps/run/tune/grid.h"
#include "apps/run/tune/loss_table.h"
#include "apps/run/tune/plan.h"
#include "inter/base/file.h"
#include "tests/apps/tune/tune_fixture.h"

namespace causeway::run {
namespace {

using diloco::tuner::Variant;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

TEST_F(TuneTest, RehearsesEveryChoiceAndRecommendsOne) {
  const Tuning tuning = tuned(options());
  EXPECT_EQ(tuning.forecast.rows.size(), 3U * 3 * 3);  // K, codecs, variants
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
  EXPECT_THAT([&] { tuned(slow); },
              ThrowsMessage<ConfigError>(HasSubstr("the run has no such region; it has us, eu")));
  slow.region_step_s = {"eu=100", "eu=200"};
  EXPECT_THAT([&] { tuned(slow); }, ThrowsMessage<ConfigError>(HasSubstr("name it once")));
}

// Each would remove the other's runs.
TEST_F(TuneTest, TwoDoNotMeasureInOneDirectory) {
  TuneOptions asked = options();
  asked.measure_s = 1;
  std::filesystem::create_directories(asked.cache / "work");
  inter::File other(asked.cache / "work" / "lock", O_RDWR | O_CREAT);
  ASSERT_TRUE(other.lock());
  EXPECT_THAT([&] { tuned(asked); },
              ThrowsMessage<ConfigError>(HasSubstr("another `causeway tune` works there")));
  asked.measure_s = 0;
  EXPECT_NO_THROW(tuned(asked)) << "it starts no programs";
}

// A second is not enough for any row: nothing new is there afterwards.
TEST_F(TuneTest, WhatAKilledOneMeasuredIsRemoved) {
  TuneOptions asked = options();
  asked.measure_s = 1;
  const auto left = asked.cache / "work" / "measured" / "row-7";
  std::filesystem::create_directories(left);
  tuned(asked);
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST_F(TuneTest, WhatIsNamedTwiceIsTriedOnce) {
  TuneOptions once = options(), twice = options();
  once.codecs = {"dense:int8"};
  twice.codecs = {"dense:int8", "dense:int8"};
  once.grid.variants = {diloco::tuner::Variant::eager};
  twice.grid.variants = {diloco::tuner::Variant::eager, diloco::tuner::Variant::eager};
  EXPECT_EQ(tuned(twice).forecast.rows.size(), tuned(once).forecast.rows.size());
  const Config config = load_config(twice.config, {}, Trainer::built_in);
  EXPECT_EQ(overlaps_of(twice.grid, config).size(), 1U) << "it would be calibrated twice";
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
  EXPECT_GT(tuning.synchronous_cost(), row.cost_to_loss);
  EXPECT_THAT(tuning_text(tuning), HasSubstr("traffic costs"));
  EXPECT_GT(nlohmann::json::parse(tuning_json(tuning))["comparison"]["synchronous_every_step"].at(
                "saved_cost"),
            0);
}

TEST_F(TuneTest, PricesOfTheConfigurationCountUnlessOthersAreGiven) {
  TuneOptions asked = options();
  asked.overrides = {"links.prices=" + write("own.toml", "default_per_gb = 2\n").string()};
  const Tuning own = tuned(asked);
  const auto payload_gb = double(own.probe.codecs.front().payload_bytes) / 1e9;
  EXPECT_NEAR(own.forecast.rows.front().cost_per_round, payload_gb * 2 * 2, 1e-12);
  asked.prices = write("others.toml", "default_per_gb = 5\n");
  EXPECT_NEAR(tuned(asked).forecast.rows.front().cost_per_round, payload_gb * 2 * 5, 1e-12);
}

TEST_F(TuneTest, PricesOfTheConfigurationThatAreNotHereLeaveTheCostOut) {
  TuneOptions asked = options();
  asked.overrides = {"links.prices=of-another-host.toml"};
  const Tuning tuning = tuned(asked);
  EXPECT_FALSE(tuning.prices.given);
  EXPECT_THAT(tuning.warnings, Contains(HasSubstr("of-another-host.toml")));
}

TEST_F(TuneTest, APlaceThatCannotBeWrittenToIsNamedBeforeAnythingIsMeasured) {
  TuneOptions asked = options();
  asked.cache = write("text", "text") / "cache";
  std::string notes;
  EXPECT_THAT([&] { tune(asked, [&notes](const std::string& note) { notes += note; }); },
              ThrowsMessage<ConfigError>(HasSubstr("name another directory with --cache")));
  EXPECT_EQ(notes, "");
}

TEST_F(TuneTest, WithoutPricesTheCostIsNotKnown) {
  const auto json = nlohmann::json::parse(tuning_json(tuned(options())));
  EXPECT_TRUE(json["rows"][0].at("cost_to_loss").is_null());
  EXPECT_TRUE(json["recommended"].at("cost_per_round").is_null());
  EXPECT_TRUE(json["comparison"]["synchronous_every_step"].at("saved_cost").is_null());
}

TEST_F(TuneTest, APriceThatWouldBeOverlookedIsRefused) {
  const std::vector<std::string> known = {"us", "eu"};
  for (const char* text :
       {"[[price]]\nfrom = 'us'\n", "[[price]]\nfrom='us'\nto='ue'\nper_gb=1\n",
        "[[prices]]\nfrom='us'\nto='eu'\nper_gb=1\n", "default_per_GB = 1\n",
        "default_per_gb = '1'\n", "default_per_gb = -1\n", "price = 3\n",
        "[[price]]\nfrom='us'\nto='eu'\nper_gb=1\nper_tb=1\n",
        "[[price]]\nfrom='us'\nto='us'\nper_gb=1\n",
        "price = [{from='us', to='eu', per_gb=1}, {from='us', to='eu', per_gb=2}]\n"}) {
    EXPECT_THROW(load_prices(write("bad.toml", text), known), ConfigError) << text;
  }
  // As a table of all pairs has it.
  EXPECT_NO_THROW(
      load_prices(write("table.toml", "[[price]]\nfrom='us'\nto='us'\nper_gb=0\n"), known));
}

TEST(TuneCalibration, IsKeptForTheSameModelAndDataWhateverKAndSeed) {
  const std::string key = calibration_key(config());
  EXPECT_EQ(key, calibration_key(config({"train.k=20", "run.seed=7", "train.steps=2400"})));
  EXPECT_NE(key, calibration_key(config({"model.width=32"})));
  EXPECT_NE(key, calibration_key(config({"codec.matrix=dense:fp16"})));
  EXPECT_EQ(key, calibration_key(config({"sync.k=auto"}))) << "K is fixed in calibrations";
  EXPECT_NE(key, calibration_key(config({"train.validation_sequences=3"})));
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
  EXPECT_FALSE(tuning.calibration.fit.lockstep_factor);
}

// From losses with the same seeds: of rounds as configured, and of eager ones.
TEST_F(TuneTest, WhatComingLateCostsIsMeasuredWithEachCodec) {
  TuneOptions cached = options();
  cached.codecs = {"dense:int8,block=128", "dense:2bit", "dense:1bit,block=128"};
  const Config configured = load_config(cached.config, {});
  const auto keep = [&](const Config& config, double more) {
    std::string lines;
    for (int seed = 1; seed <= 3; ++seed) {
      for (const auto& [k, steps, loss] :
           {std::tuple{10, 800, 2.0}, {40, 800, 2.04}, {10, 400, 2.2}})
        lines +=
            nlohmann::json{{"k", k}, {"steps", steps}, {"seed", seed}, {"val_loss", loss + more}}
                .dump() +
            "\n";
    }
    write("cache/" + calibration_key(config) + ".jsonl", lines);
  };
  const Recipe own = recipe_of(configured);
  keep(configured, 0);
  const diloco::tuner::Overlap eager{Variant::eager};
  keep(with(configured, {own.inner, own.codec, eager}), 0.1);
  keep(with(configured, {own.inner, "dense:2bit"}), 0.02);
  keep(with(configured, {own.inner, "dense:2bit", eager}), 0.3);
  keep(with(configured, {own.inner, "dense:1bit,block=128"}), 0.05);
  const Tuning tuning = tuned(cached);
  const double b = 0.2 / std::log(2);
  // What each codec loses against the configured one, in time and a round late.
  const std::map<std::string, std::pair<double, double>> losses{
      {own.codec, {0, 0.1}},
      {"dense:2bit", {0.02, 0.3}},                    // measured both
      {"dense:1bit,block=128", {0.05, 0.05 + 0.1}}};  // late as the configured one
  std::set<std::pair<std::string, Variant>> seen;
  for (const auto& row : tuning.forecast.rows) {
    if (row.inner != own.inner) continue;
    ASSERT_TRUE(losses.contains(row.codec)) << row.codec;
    const auto& [in_time, late] = losses.at(row.codec);
    EXPECT_EQ(row.overlap_priced, row.overlap.variant != Variant::streaming);
    EXPECT_NEAR(row.price->steps,
                std::exp((row.overlap.variant == Variant::eager ? late : in_time) / b), 1e-6)
        << row.codec;
    EXPECT_NEAR(row.price->lambda, 0.04 / std::log(4) / b, 1e-6);
    seen.emplace(row.codec, row.overlap.variant);
  }
  EXPECT_EQ(seen.size(), 9U);
}

// A short run has little momentum: what a trial learns is then another run's.
TEST_F(TuneTest, TrialsTakeTheOuterStepOfTheWholeRun) {
  const std::string whole = calibration_key(config());
  EXPECT_EQ(calibration_key(config({"train.steps=2400"})), whole);
  EXPECT_NE(calibration_key(config({"train.steps=120"})), whole);
  EXPECT_EQ(calibration_key(config({"train.steps=120", "outer.optimizer=nesterov"})),
            calibration_key(config({"outer.optimizer=nesterov"})));
}

TEST_F(TuneTest, StepsThatSynchronisingEveryStepSavesAreCounted) {
  TuneOptions cached = options();
  std::string lines;
  for (const auto& [k, steps, loss] :
       {std::tuple{10, 800, 2.0}, {40, 800, 2.04}, {10, 400, 2.2}, {0, 800, 1.95}}) {
    lines +=
        nlohmann::json{{"k", k}, {"steps", steps}, {"seed", 1}, {"val_loss", loss}}.dump() + "\n";
  }
  write("cache/" + calibration_key(load_config(cached.config, {})) + ".jsonl", lines);
  const Tuning tuning = tuned(cached);
  EXPECT_NEAR(tuning.price.lockstep_factor, std::exp(-0.05 / (0.2 / std::log(2))), 1e-9);
  EXPECT_NEAR(tuning.synchronous_steps(), 1200 * tuning.price.lockstep_factor, 1e-6);
  EXPECT_THAT(tuning.warnings, Not(testing::Contains(HasSubstr("needs as many steps"))));
}

TEST_F(TuneTest, WarnsOfAProbeThatSomethingElseDisturbed) {
  Tuning tuning = tuned(options());
  tuning.probe.steps = 10;
  tuning.probe.step_deviation_s = 0.3 * tuning.probe.step_s;
  tuning.warnings.clear();
  judge(tuning);
  EXPECT_THAT(tuning.warnings, Contains(HasSubstr("50.0 +- 15.0 ms: something else uses")));
  tuning.probe.step_deviation_s = 0.1 * tuning.probe.step_s;
  tuning.warnings.clear();
  judge(tuning);
  EXPECT_THAT(tuning.warnings, Not(Contains(HasSubstr("something else uses"))));
}

TEST_F(TuneTest, SaysByHowMuchTheRunnerUpIsWorse) {
  EXPECT_THAT(tuned(options()).reasons, Contains(HasSubstr("the runner-up, K = ")));
}

TEST_F(TuneTest, ACalibrationThatIsTooShortIsRefusedWithWhatItNeeds) {
  const auto calibrated = [&](double budget_s, std::uint64_t steps) {
    Config small = config({"train.steps=" + std::to_string(steps)});
    return calibrate(small, {.budget_s = budget_s, .step_s = 0.05, .cache = "cache"},
                     [](const std::string&) {});
  };
  EXPECT_THAT([&] { calibrated(10, 1200); },
              ThrowsMessage<ConfigError>(HasSubstr("--calibrate 10: that is too short")));
  EXPECT_THAT([&] { calibrated(1e6, 100); },
              ThrowsMessage<ConfigError>(HasSubstr("train.steps is 100")));
}

TEST_F(TuneTest, SaysWhenSynchronisingEveryStepIsQuicker) {
  TuneOptions asked = options();
  asked.links = write("near.toml",
                      "regions = ['us', 'eu']\n[defaults]\nrtt_ms = 0.1\nrate_mbit_s = 100000\n");
  EXPECT_THAT(tuned(asked).warnings, testing::Contains(HasSubstr("is predicted to be quicker")));
  EXPECT_THAT(tuned(options()).warnings,
              Not(testing::Contains(HasSubstr("is predicted to be quicker"))));
}

TEST_F(TuneTest, SaysWhichStepsGoWithTheRecommendedK) {
  TuneOptions asked = options();
  asked.grid.ks = {70};
  EXPECT_THAT(tuned(asked).warnings, testing::Contains(HasSubstr("set it to 1260")));
}

TEST_F(TuneTest, WhatCannotBeMeasuredIsAWarningAndLosesNothing) {
  TuneOptions asked = options();
  asked.measure_s = 1;
  EXPECT_THAT(tuned(asked).warnings, testing::Contains(HasSubstr("more than --measure leaves")));
  asked.measure_all = true;
  asked.program = "/bin/false";
  const Tuning tuning = tuned(asked);
  EXPECT_TRUE(tuning.recommendation);
  EXPECT_THAT(tuning.warnings, testing::Contains(HasSubstr("was not measured: a run")));
}

TEST_F(TuneTest, OffersOnlyWhatCanBeConfigured) {
  TuneOptions asked = options();
  asked.grid.ks = {1, 3, 10, 15};
  asked.grid.variants = {diloco::tuner::Variant::streaming};
  asked.grid.fragments = 2;
  asked.grid.overlap_steps = 9;
  const Tuning tuning = tuned(asked);
  EXPECT_FALSE(tuning.forecast.rows.empty());
  for (const auto& row : tuning.forecast.rows) {
    EXPECT_NO_THROW(config({"train.k=" + std::to_string(row.k), "sync.variant=streaming",
                            "sync.fragments=" + std::to_string(row.overlap.fragments),
                            "sync.overlap_steps=" + std::to_string(row.overlap.overlap_steps)}));
  }
  EXPECT_THAT(tuning.warnings, testing::Contains(HasSubstr("left out for K = 1, 3, 15")));
  asked.grid.ks = {3};
  EXPECT_THROW(tuned(asked), ConfigError);
}

TEST_F(TuneTest, ARoundThatWouldBeLongerThanTheRunIsNotRehearsed) {
  TuneOptions asked = options();
  asked.grid.ks = {10, 1'000'000};
  const Tuning tuning = tuned(asked);
  for (const auto& row : tuning.forecast.rows) EXPECT_EQ(row.k, 10U);
  EXPECT_THAT(tuning.warnings, Contains(HasSubstr("K = 1000000 is left out")));
  asked.grid.ks = {1201};
  EXPECT_THAT([&] { tuned(asked); },
              ThrowsMessage<ConfigError>(HasSubstr("--k 1201: a round would be longer")));
}

TEST_F(TuneTest, ChosenValuesOfKFitTheRunAndTheFragments) {
  TuneOptions asked = options();
  asked.overrides = {"train.k=25", "train.steps=4800"};
  asked.grid.ks = {};
  const Tuning tuning = tuned(asked);
  for (const auto& row : tuning.forecast.rows) {
    EXPECT_EQ(4800 % row.k, 0U) << row.k;
    EXPECT_EQ(row.k % row.overlap.fragments, 0U);
  }
  const auto streams_near_25 = [](const auto& row) {
    return row.overlap.fragments == 2 && row.k == 24;
  };
  EXPECT_TRUE(std::ranges::any_of(tuning.forecast.rows, streams_near_25));
}

TEST(TuneGrid, HoldsKItsHalfAndItsDouble) {
  const auto ks = k_grid(30, 0.1, 1, 10'000);
  EXPECT_THAT(ks, testing::IsSupersetOf({15U, 30U, 60U}));
  EXPECT_GE(ks.size(), 7U);
  EXPECT_THAT(k_grid(1, 1, 0.001, 10'000), testing::Contains(1U));
  EXPECT_EQ(k_grid(30, 0.1, 100, 60).back(), 60U) << "no more steps than the run has";
}

TEST(TuneGrid, TakesTheNearestKThatDivides) {
  EXPECT_EQ(usable_k(25, 1, 4800), 25U);
  EXPECT_EQ(usable_k(13, 1, 4800), 12U);
  EXPECT_EQ(usable_k(25, 2, 4800), 24U);
  EXPECT_EQ(usable_k(25, 2, 4801), 26U) << "of a prime number of steps, the fragments' multiple";
  EXPECT_EQ(usable_k(1, 3, 4800), 3U);
}

// Between us and asia all goes over a thin link, unless eu passes it on.
TEST_F(TuneTest, PayloadsMayTakeAnotherWay) {
  TuneOptions asked = options();
  asked.config = write("three.toml", kConfig + std::string("[[regions]]\nname = 'asia'\n"));
  asked.links = write("links3.toml",
                      "regions = ['us', 'eu', 'asia']\n[defaults]\nrtt_ms = 20\nrate_mbit_s = 10\n"
                      "[[link]]\na = 'us'\nb = 'asia'\nrtt_ms = 20\nrate_mbit_s = 0.02\n");
  asked.grid.ks = {10};
  asked.grid.variants = {diloco::tuner::Variant::synchronous};
  asked.grid.topologies = {std::nullopt, inter::Shape::direct, inter::Shape::relay};
  asked.codecs = {"dense:int8,block=128"};
  const Tuning tuning = tuned(asked);
  ASSERT_EQ(tuning.forecast.rows.size(), 3U);
  const double automatic_s = tuning.forecast.rows[0].round_s;
  const double direct_s = tuning.forecast.rows[1].round_s;
  EXPECT_LT(automatic_s, 0.8 * direct_s);
  EXPECT_LT(tuning.forecast.rows[2].round_s, 0.8 * direct_s);
  EXPECT_NE(tuning.recommended().topology, inter::Shape::direct);
}

TEST_F(TuneTest, WarnsOfWhatTheRehearsalLeavesOut) {
  TuneOptions asked = options();
  asked.overrides = {"sync.speed_adaptive_k=true"};
  EXPECT_THAT(tuned(asked).warnings, testing::Contains(HasSubstr("speed_adaptive_k")));
}

TEST_F(TuneTest, WarnsOfWhatWasNotCalibrated) {
  TuneOptions asked = options();
  const auto has_lockstep = HasSubstr("needs as many steps");
  EXPECT_THAT(tuned(asked).warnings, testing::Contains(has_lockstep));
  asked.codecs = {"topk:k=64,value=2bit", "dense:int8,block=128"};
  asked.grid.variants = {diloco::tuner::Variant::synchronous};
  asked.links =
      write("thin.toml", "regions = ['us', 'eu']\n[defaults]\nrtt_ms = 10\nrate_mbit_s = 0.01\n");
  const Tuning sparse = tuned(asked);
  ASSERT_TRUE(sparse.recommendation);
  EXPECT_THAT(sparse.recommended().codec, testing::StartsWith("topk"));
  EXPECT_THAT(sparse.warnings, testing::Contains(HasSubstr("a sparse codec needs no more steps")));
}

}  // namespace
}  // namespace causeway::run
