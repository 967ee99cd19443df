// Calibrations: short trainings by which a tuning knows what more steps between rounds cost.
#include "apps/run/tune/calibration.h"

#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/run/tune/loss_table.h"
#include "apps/run/tune/tune.h"
#include "tests/apps/tune/tune_fixture.h"

namespace causeway::run {
namespace {

using diloco::tuner::Variant;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

struct Trained {
  int k, steps, seed;
  double loss;
};
// Twice the steps cost 0.2 less, and four times as many between rounds 0.04 more.
constexpr Trained kTrained[] = {{10, 800, 1, 2.0}, {40, 800, 1, 2.04}, {10, 400, 1, 2.2}};

class TuneCalibration : public TuneTest {
 protected:
  // As an earlier tuning would have.
  void keep(const Config& config, const std::vector<Trained>& trained) {
    std::string lines;
    for (const auto& [k, steps, seed, loss] : trained) {
      lines +=
          nlohmann::json{{"k", k}, {"steps", steps}, {"seed", seed}, {"val_loss", loss}}.dump() +
          "\n";
    }
    write("cache/" + calibration_key(config) + ".jsonl", lines);
  }
  // With three seeds.
  void keep_thrice(const Config& config, double more, double more_per_seed = 0) {
    std::vector<Trained> trained;
    for (int seed = 1; seed <= 3; ++seed) {
      for (const Trained& one : kTrained)
        trained.push_back({one.k, one.steps, seed, one.loss + more + more_per_seed * seed});
    }
    keep(config, trained);
  }
};

TEST_F(TuneCalibration, IsKeptForTheSameModelAndDataWhateverKAndSeed) {
  const std::string key = calibration_key(config());
  EXPECT_EQ(key, calibration_key(config({"train.k=20", "run.seed=7", "train.steps=2400"})));
  EXPECT_NE(key, calibration_key(config({"model.width=32"})));
  EXPECT_NE(key, calibration_key(config({"codec.matrix=dense:fp16"})));
  EXPECT_EQ(key, calibration_key(config({"sync.k=auto"}))) << "K is fixed in calibrations";
  EXPECT_NE(key, calibration_key(config({"train.validation_sequences=3"})));
}

TEST_F(TuneCalibration, EarlierCalibrationsAreUsed) {
  TuneOptions cached = options();
  keep_thrice(load_config(cached.config, {}), 0, 0.001);
  const Tuning tuning = tuned(cached);
  EXPECT_EQ(tuning.calibration.triples, 3U);
  EXPECT_NEAR(tuning.price.lambda, 0.04 / std::log(4) / (0.2 / std::log(2)), 1e-6);
  EXPECT_EQ(tuning.price.k_reference, 10);
  EXPECT_FALSE(tuning.calibration.fit.lockstep_factor);
}

// From losses with the same seeds: of rounds as configured, and of eager ones.
TEST_F(TuneCalibration, WhatComingLateCostsIsMeasuredWithEachCodec) {
  TuneOptions cached = options();
  cached.codecs = {"dense:int8,block=128", "dense:2bit", "dense:1bit,block=128"};
  const Config configured = load_config(cached.config, {});
  const Recipe own = recipe_of(configured);
  keep_thrice(configured, 0);
  const diloco::tuner::Overlap eager{Variant::eager};
  keep_thrice(with(configured, {own.inner, own.codec, eager}), 0.1);
  keep_thrice(with(configured, {own.inner, "dense:2bit"}), 0.02);
  keep_thrice(with(configured, {own.inner, "dense:2bit", eager}), 0.3);
  keep_thrice(with(configured, {own.inner, "dense:1bit,block=128"}), 0.05);
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
TEST_F(TuneCalibration, TrialsTakeTheOuterStepOfTheWholeRun) {
  const std::string whole = calibration_key(config());
  EXPECT_EQ(calibration_key(config({"train.steps=2400"})), whole);
  EXPECT_NE(calibration_key(config({"train.steps=120"})), whole);
  EXPECT_EQ(calibration_key(config({"train.steps=120", "outer.optimizer=nesterov"})),
            calibration_key(config({"outer.optimizer=nesterov"})));
}

TEST_F(TuneCalibration, StepsThatSynchronisingEveryStepSavesAreCounted) {
  TuneOptions cached = options();
  std::vector<Trained> trained(std::begin(kTrained), std::end(kTrained));
  trained.push_back({0, 800, 1, 1.95});
  keep(load_config(cached.config, {}), trained);
  const Tuning tuning = tuned(cached);
  EXPECT_NEAR(tuning.price.lockstep_factor, std::exp(-0.05 / (0.2 / std::log(2))), 1e-9);
  EXPECT_NEAR(tuning.synchronous_steps(), 1200 * tuning.price.lockstep_factor, 1e-6);
  EXPECT_THAT(tuning.warnings, Not(Contains(HasSubstr("needs as many steps"))));
}

TEST_F(TuneCalibration, ACalibrationThatIsTooShortIsRefusedWithWhatItNeeds) {
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

TEST_F(TuneCalibration, WarnsOfWhatWasNotCalibrated) {
  TuneOptions asked = options();
  const auto has_lockstep = HasSubstr("needs as many steps");
  EXPECT_THAT(tuned(asked).warnings, Contains(has_lockstep));
  asked.codecs = {"topk:k=64,value=2bit", "dense:int8,block=128"};
  asked.grid.variants = {diloco::tuner::Variant::synchronous};
  asked.links =
      write("thin.toml", "regions = ['us', 'eu']\n[defaults]\nrtt_ms = 10\nrate_mbit_s = 0.01\n");
  const Tuning sparse = tuned(asked);
  ASSERT_TRUE(sparse.recommendation);
  EXPECT_THAT(sparse.recommended().codec, testing::StartsWith("topk"));
  EXPECT_THAT(sparse.warnings, Contains(HasSubstr("a sparse codec needs no more steps")));
}

}  // namespace
}  // namespace causeway::run
