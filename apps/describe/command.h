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

// What a shell reads to complete this program's command line.

// Subcommands and options; where none fits, names of files.
std::string bash_completion(const std::vector<Command>& all);
// The same with what each means.
std::string zsh_completion(const std::vector<Command>& all);
std::string fish_completion(const std::vector<Command>& all);

// In the man macros of roff, section 1.
std::string man_page(const std::vector<Command>& all, const std::string& version);

}  // namespace causeway::describe
