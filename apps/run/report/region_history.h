// What a region's directory tells of its part in a run, of one that goes on as well.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/region/region_files.h"
#include "apps/run/watch/round_line.h"
#include "intra/worker/worker_result.h"

namespace causeway::run {

struct RegionHistory {
  std::string name, run_id;
  std::vector<Event> events;  // of events.jsonl, without rounds
  // Some of them, in order (thinned_rounds.h), without their states.
  std::vector<LoggedRound> rounds;
  // After each round, the last time that it was applied: a hash of the state, as there may be many.
  std::map<std::uint64_t, std::size_t> states;
  std::optional<RegionStatus> status;
  bool finished = false;                      // the run is over there
  bool runs = false;                          // a coordinator runs there now
  std::uint64_t steps = 0;                    // of the run
  std::optional<intra::WorkerResult> result;  // none: its worker is not done
};

// Throws ConfigError if it is none of a region that was started.
RegionHistory read_region_history(const std::filesystem::path& region_directory);

// Decisions about K, as a region's events.jsonl has them.

struct KChange {
  std::uint64_t round = 0;
  std::uint64_t from = 0, to = 0;
  std::string text;  // why
};

// Each once, in order; those that left K as it was are left out.
std::vector<KChange> k_changes(const std::vector<Event>& events);

// A table with its heading; empty: K did not change.
std::string k_changes_html(const std::vector<KChange>& changes);

}  // namespace causeway::run
