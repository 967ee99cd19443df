// `causeway tune --measure`: a few rounds of the best choices on real processes, whose steps are
// timed waits, to hold against what was predicted of them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "apps/run/probe/runs.h"
#include "apps/run/tune/predict.h"
#include "apps/run/tune/tune.h"

namespace causeway::run {

struct TimedRounds {
  const TuneOptions& options;
  PredictInput input;  // as the rows were predicted
  std::filesystem::path links_file;
  RealRuns runs;
  const std::function<void(const std::string&)>& note;  // is told what is being done
};

// Fills in what was measured of the recommended row and its neighbours, or of all rows, and what is
// predicted of rounds that are timed so. A warning for each that was not measured says why.
void measure_rounds(const TimedRounds& how, Tuning& tuning);

}  // namespace causeway::run
