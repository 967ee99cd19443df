// From what chance is drawn, the same in every engine. Internal to wan-sim.
#pragma once

#include "wan-sim/base/chance.h"
#include "wan-sim/scenario/scenario.h"

namespace causeway::wan_sim {

inline std::uint64_t key_of_link(std::uint64_t seed, const Pair& pair) {
  return mix(mix(seed, key_of(pair.first)), key_of(pair.second));
}
// Of a connection as dialled, numbered from 1 on its link.
inline std::uint64_t key_of_connection(std::uint64_t seed, const Pair& pair, std::uint64_t number) {
  return mix(key_of_link(seed, pair), number);
}
inline std::uint64_t key_of_flow(std::uint64_t connection, bool forward) {
  return mix(connection, forward ? 0 : 1);
}

}  // namespace causeway::wan_sim
