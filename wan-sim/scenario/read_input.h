// Files that somebody named: scenarios, traces, recordings.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace causeway::wan_sim {

// The whole file. `what` it should be is for the message. Throws std::system_error
// (Errc::bad_scenario) if it cannot be read, is no regular file, or has more than `bytes_max`
// bytes.
std::string read_input(const std::filesystem::path& file, const std::string& what,
                       std::size_t bytes_max = std::size_t{64} << 20);

}  // namespace causeway::wan_sim
