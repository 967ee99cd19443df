// The world of a rehearsal (diloco/rehearsal/rehearsal.h) over the simulated WAN's virtual engine.
#pragma once

#include <memory>
#include <optional>

#include "diloco/rehearsal/rehearsal.h"
#include "inter/route/topology.h"
#include "wan-sim/scenario/scenario.h"
#include "wan-sim/virtual/virtual_wan.h"

namespace causeway::run {

// What the timeline asks of processes is left out: nobody is killed in a rehearsal.
wan_sim::Scenario without_processes(wan_sim::Scenario scenario);

// The fluid mode, or chunks where the scenario has what only those can honour, such as congestion
// control.
wan_sim::VirtualMode mode_for(const wan_sim::Scenario& scenario);

// Without processes, and in that mode. `topology`: as links.topology.
std::unique_ptr<diloco::tuner::World> make_virtual_world(const wan_sim::Scenario& scenario,
                                                         std::optional<inter::Shape> topology = {});

}  // namespace causeway::run
