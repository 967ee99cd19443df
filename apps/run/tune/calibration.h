// What steps are worth, measured: short paired trials of the run in this process (trial.h), kept
// for the next tuning of the same model and data.
//
// Of each seed, and so with one start and one order of the data: K and T steps, 4K and T steps, K
// and T/2 steps as configured. From these a, b and lambda = a / b (diloco/pacing/objective.h). Each
// seed is also trained synchronised every step. Other recipes are trained with K and with 4K:
// how many steps they need follows from how much lower their losses are, and b. So are the
// configured codec's other ways to overlap exchanges with steps, with each inner optimizer.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/run/config/config.h"
#include "apps/run/learning/recipe.h"
#include "diloco/pacing/objective.h"

namespace causeway::run {

struct Calibration {
  diloco::tuner::LambdaFit fit;  // as configured
  std::size_t triples = 0;
  std::uint32_t k = 0;      // the smaller one
  std::uint64_t steps = 0;  // T of the newest triples
  // Of every recipe that was tried, the configured one first; none if `fit` says nothing.
  std::vector<std::pair<Recipe, diloco::tuner::StatisticalPrice>> prices;

  bool known() const { return triples > 0 && fit.b > 0; }
  const diloco::tuner::StatisticalPrice* price_of(const Recipe& recipe) const;
  // Of `inner` with `codec` where exchanges overlap as in `variant`, from what that costs the
  // configured codec with this inner optimizer. None if that was not tried.
  std::optional<diloco::tuner::StatisticalPrice> price_of(const Recipe& recipe,
                                                          diloco::tuner::Variant variant) const;
};

struct CalibrationOptions {
  double budget_s = 0;  // for new trials; 0: only what the cache holds
  double step_s = 0;    // of a region in one of these trials
  std::size_t at_once = 1;
  std::filesystem::path cache;
  std::vector<Recipe> recipes = {};  // others than the configured one
};

inline constexpr std::uint32_t kCalibrationRatio = 4;

// Nothing is known if `triples` is 0. `note` is told what is trained. Throws what trials throw.
Calibration calibrate(const Config& config, const CalibrationOptions& options,
                      const std::function<void(const std::string&)>& note);

// Losses of short trials, kept in a file for each way to train.

struct LossKey {
  std::uint32_t k = 0;
  std::uint64_t steps = 0, seed = 0;
  auto operator<=>(const LossKey&) const = default;

  // Of the run that synchronises every step.
  LossKey lockstep() const { return {0, steps, seed}; }
};

class LossTable {
 public:
  // Reads what `directory` holds of trials of this configuration.
  LossTable(const Config& config, const std::filesystem::path& directory);

  std::optional<double> find(const LossKey& key) const;
  const std::map<LossKey, double>& all() const { return losses_; }
  // A run synchronised every step if key.k is 0. Trials of one table may run side by side.
  double train(const LossKey& key) const;
  void keep(const LossKey& key, double loss);

 private:
  Config config_;
  std::filesystem::path file_;
  std::map<LossKey, double> losses_;
};

// Names everything that the losses depend on but K, the number of steps and the seed: model,
// data, optimizers, codec, batch and the number of regions.
std::string calibration_key(const Config& config);

}  // namespace causeway::run
