// What a POST to a running relay asks for, as lines of its timeline.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace causeway::apps {

// Paths that stand for faults of their own: /cut, /heal, /pause.
const std::map<std::string, std::vector<std::string>>& wan_command_verbs();

// Lines as in [[event]]. To /command: one such line, or JSON of the same keys. To a verb: JSON with
// what it needs (pair or link, for_s), or nothing. Throws Errc::bad_scenario.
std::vector<std::string> wan_command_lines(const std::string& path, const std::string& body);

}  // namespace causeway::apps
