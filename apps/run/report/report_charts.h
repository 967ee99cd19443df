// The curves of a report.
#pragma once

#include <string>
#include <vector>

#include "apps/run/region/region_files.h"

namespace causeway::run {

// Of a run's observations, in order of time. What has no two points is left out.
std::string report_charts(const std::vector<Sample>& samples, const std::string& unit_of_loss);

}  // namespace causeway::run
