// Options that may be repeated and take one value each time.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace causeway::apps {

// CLI11's own would swallow what follows the value, such as CONFIG.
inline CLI::Option* add_repeated(CLI::App& command, const std::string& flag,
                                 std::vector<std::string>& values, const std::string& meaning) {
  return command.add_option(flag, values, meaning)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

inline void add_set_option(CLI::App& command, std::vector<std::string>& overrides) {
  add_repeated(command, "--set", overrides, "Override a setting; once for each")
      ->type_name("SECTION.KEY=VALUE");
}

}  // namespace causeway::apps
