// Flags that several subcommands have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace causeway::apps {

// The range of a number. Unlike CLI::Range this refuses NaN as well, and what is negative before it
// is made unsigned.
inline CLI::Validator number_from(double min, double max) {
  const auto check = [min, max](const std::string& text) -> std::string {
    double number = 0;
    if (CLI::detail::lexical_cast(text, number) && number >= min && number <= max) return {};
    return text + ": must be a number from " + CLI::detail::to_string(min) + " to " +
           CLI::detail::to_string(max);
  };
  return {check, "NUMBER"};
}

// Rounds, versions and regions are fewer. A number that cannot be read would become another one.
inline constexpr double kCountMax = 1e15;

// Options that may be repeated and take one value each time.

// As an option of one value: CLI11's lists would swallow what follows the value, such as CONFIG,
// and say so in the help.
inline CLI::Option* add_repeated(CLI::App& command, const std::string& flag,
                                 std::vector<std::string>& values, const std::string& meaning) {
  const auto add = [&values](const std::string& value) { values.push_back(value); };
  return command.add_option_function<std::string>(flag, add, meaning)->trigger_on_parse();
}

inline void add_set_option(CLI::App& command, std::vector<std::string>& overrides) {
  add_repeated(command, "--set", overrides, "Override a setting; may be repeated")
      ->type_name("SECTION.KEY=VALUE");
}

// Whose directories to read, of a run that is over or under way.

inline void add_directories(CLI::App& command, std::vector<std::filesystem::path>& paths) {
  command
      .add_option("DIRECTORY", paths, "Directories of regions, or of a run: then all its regions")
      ->required();
}

inline void add_signers(CLI::App& command, std::filesystem::path& certificates) {
  command.add_option("--certificates", certificates,
                     "Directory made by `causeway certs`, to check signatures with (default: "
                     "certificates/ of the run's directory)");
}

// How long a process waits at its start for `what`, which may come by itself.

inline void add_start_wait(CLI::App& command, std::uint32_t& seconds, const std::string& what) {
  command
      .add_option(
          "--start-wait", seconds,
          "How long to wait at the start for " + what + "; after that it ends with exit code 75")
      ->check(number_from(0, 86'400))
      ->type_name("SECONDS")
      ->capture_default_str();
}

}  // namespace causeway::apps
