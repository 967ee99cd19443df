// Sends one command to a running wan-sim.
#pragma once

#include <string>

namespace causeway::apps {

// `where`: a Unix socket of --control, or http://HOST:PORT of --http. Answers "ok", "error: ...",
// or JSON for `stats`, and over HTTP for `maps` and `verdict` too. Throws std::system_error if
// nobody answers there.
std::string wan_tell(const std::string& where, const std::string& command);

}  // namespace causeway::apps
