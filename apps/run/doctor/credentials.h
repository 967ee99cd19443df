// Whether a region's certificate will be believed, today and in some weeks.
#pragma once

#include <filesystem>
#include <string>

#include "apps/run/doctor/finding.h"

namespace causeway::run {

Findings check_credentials(const std::filesystem::path& certificates, const std::string& region);

}  // namespace causeway::run
