// The command line as it describes itself: what completion in shells and the manual page are made
// from.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace causeway::describe {

struct Option {
  std::vector<std::string> names = {};  // "--set", "-h"; of a positional, its own: "CONFIG"
  std::string type = {};                // "TEXT", "HOST:PORT"; empty: it takes no value
  std::vector<std::string> choices = {};
  std::vector<std::string> beginnings = {};  // of a value: "train.k=", which the user goes on with
  std::string meaning;
  bool positional = false;
};

struct Command {
  std::string path;  // "causeway certs init"
  std::string meaning;
  std::vector<Option> options = {};
  std::vector<std::string> subcommands = {};  // their names
};

// The program itself first, each command before those below it; hidden ones are left out. Options
// whose type is that of `--set` take one of `settings`.
std::vector<Command> commands_of(const CLI::App& app, const std::vector<std::string>& settings);

// Subcommands that print what this room makes of `app`: `completion SHELL` and `man-page`.
void add_describe(CLI::App& app, const std::string& version, std::vector<std::string> settings);

}  // namespace causeway::describe
