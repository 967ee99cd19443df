// Recorded links. Two formats:
//   CSV        a header of t and any of rate, rtt, loss; then rows: seconds, Mbit/s, ms, a share of
//   1 mahimahi   one number a line: the millisecond in which one packet of 1500 bytes can be sent
// Untrusted text: every number is checked.
#pragma once

#include <filesystem>
#include <string>

#include "wan-sim/scenario/scenario.h"

namespace causeway::wan_sim {

enum class TraceFormat { csv, mahimahi };

// Throws Errc::bad_scenario with `file`, the line and what is allowed.
Trace parse_trace(const std::string& text, TraceFormat format, const std::filesystem::path& file);
// By its ending: .csv, or anything else for mahimahi.
Trace load_trace(const std::filesystem::path& file);

}  // namespace causeway::wan_sim
