// Settings that are fine alone and impossible together.
#pragma once

#include <string>

#include "apps/run/config/parsed_config.h"

namespace causeway::run {

// Throws ConfigError, which names one of the settings and where in `file` it was set.
void check_combinations(const ParsedConfig& parsed, const std::string& file);

}  // namespace causeway::run
