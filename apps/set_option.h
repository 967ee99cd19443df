// Options that may be repeated and take one value each time.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace causeway::apps {

// As an option of one value: CLI11's lists would swallow what follows the value, such as CONFIG,
// and say so in the help.
inline CLI::Option* add_repeated(CLI::App& command, const std::string& flag,
                                 std::vector<std::string>& values, const std::string& meaning) {
  const auto add = [&values](const std::string& value) { values.push_back(value); };
  return command.add_option_function<std::string>(flag, add, meaning)->trigger_on_parse();
}

inline void add_set_option(CLI::App& command, std::vector<std::string>& overrides) {
  add_repeated(command, "--set", overrides, "Override a setting; once for each")
      ->type_name("SECTION.KEY=VALUE");
}

}  // namespace causeway::apps
