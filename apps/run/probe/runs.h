// Short real runs for a tuning: `causeway simulate` as a child, and what is read from its files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/config/config.h"

namespace causeway::run {

struct RealRuns {
  std::filesystem::path config;
  std::vector<std::string> overrides;  // of the tuning itself; those of a run come after them
  std::filesystem::path program;       // empty: this one
  std::filesystem::path directory;     // a directory in it for each run
  std::string worker = {};  // command of the program that trains; empty: the built-in one

  struct How {
    bool shaped = false;  // through the relay, as wan.profile says
  };

  // Runs it to its end, or finds that it has been. Throws RunError with what it said last
  // if it fails.
  void run(const std::string& name, const std::vector<std::string>& more_overrides, How how) const;
  std::filesystem::path path(const std::string& name) const { return directory / name; }
};

// A round in a region's events.jsonl.
struct RoundEvent {
  std::uint64_t steps = 0;   // nominal inner steps
  std::uint64_t step = 0;    // of the region, up to here
  std::uint64_t tokens = 0;  // the same
  double compute_s = 0;      // that they took
  double time_unix_s = 0;
};
std::vector<RoundEvent> read_rounds(const std::filesystem::path& region_directory);

// The steps that most rounds have: those of warm-up, of another K and of the end differ. 0 without
// rounds.
std::uint64_t usual_steps(const std::filesystem::path& run,
                          const std::vector<std::string>& regions);

// Median time that a round of usual_steps() takes, over all regions; the first two rounds left out.
// Nothing with too few rounds.
std::optional<double> measured_round_s(const std::filesystem::path& run,
                                       const std::vector<std::string>& regions);

}  // namespace causeway::run
