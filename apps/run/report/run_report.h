// report.html of a run whose coordinators and workers were started one by one, from what their
// regions' directories hold.
#pragma once

#include <string>
#include <vector>

#include "apps/run/report/region_history.h"

namespace causeway::run {

// One file without references to anything outside it. At least one region, all of one run.
std::string run_report(const std::vector<RegionHistory>& regions);

}  // namespace causeway::run
