// [[event]] tables, and the same as one line on the control socket. Internal to wan-sim.
#pragma once

#include <vector>

#include "wan-sim/scenario/scenario.h"
#include "wan-sim/scenario/toml_reader.h"

namespace causeway::wan_sim {

// The action, and what undoes it if for_s says when. `timed`: at_s is required; otherwise refused.
std::vector<TimedAction> read_event(const TomlReader& reader, const Scenario& scenario,
                                    const toml::table& table, bool timed,
                                    std::vector<SettingUse>& uses);

}  // namespace causeway::wan_sim
