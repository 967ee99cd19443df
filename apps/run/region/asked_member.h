// What `causeway members add` may ask for, judged by the members that the run has.
#pragma once

#include <chrono>
#include <string>

#include "diloco/log/membership.h"

namespace causeway::run {

// What to ask for: a member whose address is to change keeps its role. Throws ConfigError if the
// run cannot have what was asked.
diloco::Member asked_member(const diloco::Membership& membership, diloco::Member asked);

// On a member that nobody can dial; empty: there is nothing to say.
std::string dial_only_warning(const diloco::Membership& membership, const diloco::Member& asked);

// What it waits for where the run does not take a change at once, likewise by status.json.
std::string still_waits(const std::string& status_json, std::chrono::seconds patience);

// Why the run has not taken a change for so long, and what to do: by the region's status.json, of
// which there may be none.
std::string why_not_taken(const std::string& status_json, std::chrono::seconds patience);

}  // namespace causeway::run
