// Max-min fair rates: no flow can get more without one that has no more getting less. Bertsekas and
// Gallager, Data Networks, 6.5.2: the resource that gives each of its flows least is served first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace causeway::wan_sim {

// Resources have capacities; a flow uses all of `uses` at once, and these are not empty. Returns
// the rate of each flow, in the unit of the capacities.
std::vector<double> max_min_rates(std::span<const double> capacities,
                                  std::span<const std::vector<std::uint32_t>> uses);

}  // namespace causeway::wan_sim
