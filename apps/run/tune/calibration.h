// The statistical price of K, measured: short real runs in triples, kept for the next tuning of the
// same model and data.
//
// A triple has one seed, and so one start and one order of the data: K and T steps, 4K and T steps,
// K and T/2 steps. From these a, b and lambda = a / b (diloco/pacing/objective.h). The first one is
// also run synchronised every step: what that needs fewer steps for the same loss.
#pragma once

#include <functional>
#include <string>

#include "apps/run/config/config.h"
#include "apps/run/probe/runs.h"
#include "diloco/pacing/objective.h"

namespace causeway::run {

struct Calibration {
  diloco::tuner::LambdaFit fit;
  std::size_t triples = 0;
  std::uint32_t k = 0;      // the smaller one
  std::uint64_t steps = 0;  // T of the newest triples
};

struct CalibrationOptions {
  double budget_s = 0;  // for new runs; 0: only what the cache holds
  double step_s = 0;    // of one region alone on this host
  std::filesystem::path cache;
};

inline constexpr std::uint32_t kCalibrationRatio = 4;

// Nothing is known if `triples` is 0. `note` is told what is run. Throws what RealRuns::run throws.
Calibration calibrate(const Config& config, const RealRuns& runs, const CalibrationOptions& options,
                      const std::function<void(const std::string&)>& note);

// Names everything that the losses depend on but K, the number of steps and the seed: model, data,
// optimizers, codec, batch and the number of regions.
std::string calibration_key(const Config& config);

}  // namespace causeway::run
