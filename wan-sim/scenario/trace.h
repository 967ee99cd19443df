// Recorded links. Two formats:
//   CSV        a header of t and any of rate, rtt, loss; then rows: seconds, Mbit/s, ms, a share
//              of 1
//   mahimahi   one number a line: the millisecond in which one packet of 1500 bytes can be sent
// Untrusted text: every number is checked.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "wan-sim/scenario/scenario.h"

namespace causeway::wan_sim {

// Files that somebody named: scenarios, traces, recordings.
// The whole file. `what` it should be is for the message. Throws std::system_error
// (Errc::bad_scenario) if it cannot be read, is no regular file, or has more than `bytes_max`
// bytes.
std::string read_input(const std::filesystem::path& file, const std::string& what,
                       std::size_t bytes_max = std::size_t{64} << 20);

enum class TraceFormat { csv, mahimahi };

// Throws Errc::bad_scenario with `file`, the line and what is allowed.
Trace parse_trace(const std::string& text, TraceFormat format, const std::filesystem::path& file);
// By its ending: .csv, or anything else for mahimahi.
Trace load_trace(const std::filesystem::path& file);

}  // namespace causeway::wan_sim
