// What a POST to a running WAN asks for, as lines of its timeline.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "wan-sim/scenario/scenario.h"

namespace causeway::apps {

// Paths that stand for faults of their own: /cut, /heal, /pause. An engine of packets cuts a cable;
// the relay, whose bytes cannot vanish for good, cuts connections.
const std::map<std::string, std::vector<std::string>>& wan_command_verbs(wan_sim::Engine engine);

// Lines as in [[event]]. To /command: one such line, or JSON of the same keys. To a verb: JSON with
// what it needs (pair or link, for_s), or nothing. Throws Errc::bad_scenario.
std::vector<std::string> wan_command_lines(wan_sim::Engine engine, const std::string& path,
                                           const std::string& body);

// To /capture: whether packets are written from now on, {"on": true} or {"on": false}.
bool wan_capture_wish(const std::string& body);

}  // namespace causeway::apps
