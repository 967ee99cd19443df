// report.html of a run whose coordinators and workers were started one by one, from what their
// regions' directories hold.
#pragma once

#include <string>
#include <vector>

#include "apps/run/region/region_files.h"
#include "apps/run/report/region_history.h"

namespace causeway::run {

// One file without references to anything outside it. At least one region, all of one run. `more`:
// HTML that follows the table of the regions.
std::string run_report(const std::vector<RegionHistory>& regions, const std::string& more = "");

// The curves of a report.

// Of a run's observations, in order of time. What has no two points is left out.
std::string report_charts(const std::vector<Sample>& samples, const std::string& unit_of_loss);

}  // namespace causeway::run
