// What a scenario's timeline does to the processes of a simulation: kill, restart, pause, resume.
#pragma once

#include <string>

#include "apps/run/simulate/supervisor.h"

namespace causeway::wan_sim {
struct ProcessAction;
}

namespace causeway::run {

// `label` as region_processes.h gives them: "us-east worker 0".
bool concerns(const wan_sim::ProcessAction& action, const std::string& label);

void carry_out(const wan_sim::ProcessAction& action, Supervisor& supervisor);

// "kill eu-west coordinator"
std::string to_string(const wan_sim::ProcessAction& action);

}  // namespace causeway::run
