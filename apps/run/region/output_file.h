// Files and directories that flags name for what a subcommand writes.
#pragma once

#include <filesystem>
#include <string>

namespace causeway::run {

// Whether `flag` names a place for a file: no directory, and in one that is there. Throws
// ConfigError, which says what to name instead.
void check_place_of_file(const std::string& flag, const std::filesystem::path& file);

// The same for a file that appears there at once, when it is complete: it would replace a device or
// a pipe, and nobody would read what was meant for it.
void check_output_file(const std::string& flag, const std::filesystem::path& file);

// Makes the directory that `flag` names, if need be, and tries whether files can be made in it:
// before anything is measured, not when the result is to be kept. Throws ConfigError, which says
// what to name instead, and std::system_error if the disk is full.
void make_output_directory(const std::string& flag, const std::filesystem::path& directory);

}  // namespace causeway::run
