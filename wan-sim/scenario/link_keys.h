// The settings of a link in one place: unit, range, which engines honour them, and where they go.
// Internal to wan-sim.
#pragma once

#include <span>
#include <string_view>

#include "wan-sim/scenario/scenario.h"

namespace causeway::wan_sim {

inline constexpr unsigned kRelay = 1, kPacket = 2, kChunks = 4, kFluid = 8, kAllEngines = 15;

struct LinkKey {
  std::string_view name;
  double min, max;
  std::string_view unit;
  unsigned engines;  // that honour a value other than the default
  void (*set)(LinkProfile&, double);
  void (*copy)(const LinkProfile& from, LinkProfile& to);  // what `set` sets
};
std::span<const LinkKey> link_keys();
const LinkKey* find_link_key(std::string_view name);

}  // namespace causeway::wan_sim
