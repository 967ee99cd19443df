// A directory that goes away with the test, and a configuration in it.
#pragma once

#include <string>
#include <vector>

#include "apps/run/config/config.h"
#include "apps/run/config/parsed_config.h"
#include "tests/support/temporary_directory.h"

namespace causeway::run {

using test::TemporaryDirectory;

// The least a run needs. Lines 1 to 6 hold data and train, the regions follow.
inline const std::string kSmallConfig = R"([data]
files = ["text"]
[train]
batch = 4
steps = 200
k = 20
[[regions]]
name = "east"
[[regions]]
name = "west"
)";

inline Config load_text(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return load_config_text(text, "run.toml", overrides);
}

// The message of the ConfigError, without the directory of the file.
inline std::string problem_of(const std::string& text,
                              const std::vector<std::string>& overrides = {}) {
  try {
    load_text(text, overrides);
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    const std::size_t name = message.find("run.toml");
    return name == std::string::npos ? message : message.substr(name);
  }
  return "";
}

}  // namespace causeway::run
