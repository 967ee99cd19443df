// A region that was seen, with as much of a status as a test needs.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "apps/run/watch/seen_region.h"

namespace causeway::run {

inline SeenRegion seen_region(const std::string& name, const nlohmann::json& more) {
  nlohmann::json status = {{"region", name},
                           {"version", 3},
                           {"steps", 1000},
                           {"wan_tx_bytes", 2'000'000},
                           {"progress",
                            {{"step", 250},
                             {"tokens", 5000},
                             {"loss", 2.5},
                             {"tokens_per_s", 1200.0},
                             {"compute_s", 80.0},
                             {"wait_s", 20.0},
                             {"phase", "compute"}}}};
  if (more.is_object()) status.update(more);
  SeenRegion seen;
  seen.name = name;
  seen.text = status.dump();
  seen.runs = true;
  return seen;
}

inline SeenRegion unseen_region(const std::string& name, const std::string& problem) {
  SeenRegion unseen;
  unseen.name = name;
  unseen.problem = problem;
  return unseen;
}

}  // namespace causeway::run
