// Short real runs for a tuning: `causeway simulate` as a child, and what is read from its files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/config.h"

namespace causeway::run {

struct RealRuns {
  std::filesystem::path config;
  std::vector<std::string> overrides;  // of the tuning itself; those of a run come after them
  std::filesystem::path program;       // empty: this one
  std::filesystem::path directory;     // a directory in it for each run

  // Runs it to its end, or finds that it has been. Throws std::runtime_error with what it said last
  // if it fails.
  void run(const std::string& name, const std::vector<std::string>& more_overrides,
           bool shaped) const;
  std::filesystem::path path(const std::string& name) const { return directory / name; }
};

// Median time from one round to the next, over all regions, from events.jsonl; the first two rounds
// left out. Nothing with too few rounds.
std::optional<double> measured_round_s(const std::filesystem::path& run,
                                       const std::vector<std::string>& regions);

// val_loss of summary.json.
double measured_loss(const std::filesystem::path& run);

}  // namespace causeway::run
