// What steps are worth, measured: short paired trials of the run in this process (trial.h), kept
// for the next tuning of the same model and data.
//
// Of each seed, and so with one start and one order of the data: K and T steps, 4K and T steps, K
// and T/2 steps as configured. From these a, b and lambda = a / b (diloco/pacing/objective.h). Each
// seed is also trained synchronised every step. Other recipes are trained with K and with 4K:
// how many steps they need follows from how much lower their losses are, and b. So are the
// configured codec's other ways to overlap exchanges with steps, with each inner optimizer. Ways
// in which exchanges come late are trained with every codec, but with K alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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
  // Where exchanges overlap as in `variant`: the steps that were measured with this codec, or those
  // that it costs the configured codec with this inner optimizer; and lambda from the latter. None
  // if that was not tried.
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

}  // namespace causeway::run
