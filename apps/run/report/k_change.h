// Decisions about K, as a region's events.jsonl has them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/run/region/region_files.h"

namespace causeway::run {

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
