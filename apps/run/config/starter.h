// Files to begin with: a configuration with comments, and the WAN to try it over.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace causeway::run {

enum class StarterTrainer : std::uint8_t {
  pytorch,   // a script of the user's
  own,       // any other program of the user's
  built_in,  // the model and the trainer that are built in
};

// The file's text. `file` and `wan` are the paths under which the two will lie, as seen from the
// directory in which the run is started. Throws ConfigError if they cannot stand in such a file.
std::string starter_config(StarterTrainer trainer, const std::filesystem::path& file,
                           const std::filesystem::path& wan);

// The text of a WAN between the regions of any of these configurations.
std::string_view starter_wan();

// The command by which the user tries the configuration.
std::string starter_command(StarterTrainer trainer, const std::filesystem::path& file);

}  // namespace causeway::run
