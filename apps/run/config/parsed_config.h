// A configuration as text: one TOML file and overrides, turned into a Config with the place where
// every key was set.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "apps/run/config/config.h"

namespace causeway::run {

// "file:line" or "--set key" of every key that was set; a region's key is "regions[0].workers".
using Places = std::map<std::string, std::string>;

struct ParsedConfig {
  Config config;  // defaults where nothing was set; derived keys not filled in yet
  Places places;
};

// The text of a configuration file. Throws ConfigError if it cannot be read or is far too large for
// one.
std::string read_config(const std::filesystem::path& file);

// Checks each key alone: unknown keys, types, ranges. `file` is for messages. Throws ConfigError.
ParsedConfig parse_config(const std::string& text, const std::string& file,
                          const std::vector<std::string>& overrides);

// load_config of config.h, for a file that has been read.
Config load_config_text(const std::string& text, const std::string& file,
                        const std::vector<std::string>& overrides,
                        Trainer trainer = Trainer::as_configured);

// Settings that are fine alone and impossible together.

// Throws ConfigError, which names one of the settings and where in `file` it was set.
void check_combinations(const ParsedConfig& parsed, const std::string& file);

}  // namespace causeway::run
