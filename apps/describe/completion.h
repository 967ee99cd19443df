// What a shell reads to complete this program's command line.
#pragma once

#include <string>
#include <vector>

#include "apps/describe/command.h"

namespace causeway::describe {

// Subcommands and options; where none fits, names of files.
std::string bash_completion(const std::vector<Command>& all);
// The same with what each means.
std::string zsh_completion(const std::vector<Command>& all);
std::string fish_completion(const std::vector<Command>& all);

}  // namespace causeway::describe
