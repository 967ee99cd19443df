// Regions of a run as people read them: one of them with all it says, or all of them as a table.
#pragma once

#include <string>
#include <vector>

#include "apps/run/watch/seen_region.h"

namespace causeway::run {

std::string region_page(const SeenRegion& region);

// A line for each region, what they do together and what it cost, their links, and what is wrong.
std::string run_table(const std::vector<SeenRegion>& regions);

// {"regions": [{"region", "runs", "starts", "hangs", "rounds_behind", "rounds_missed",
// "written_utc", "problem", "linked_to", "removed", "status"}, ...]}
std::string run_json(const std::vector<SeenRegion>& regions);

}  // namespace causeway::run
