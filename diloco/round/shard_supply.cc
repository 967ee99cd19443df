#include "diloco/round/shard_supply.h"

#include <algorithm>

namespace causeway::diloco {

std::uint32_t ShardSupply::places() const {
  return static_cast<std::uint32_t>(std::min(contribution.shards.size(), summers.usual_count()));
}

bool ShardSupply::is_enough(bool hurried, bool strict) const {
  const bool maker_has_it = has_it(contribution.region);
  for (std::uint32_t place = 0; place < places(); ++place) {
    std::size_t reachable = 0, holding = 0;
    for (const std::string& summer : summers.of(place)) {
      if (summer == contribution.region || !up.contains(summer)) continue;
      ++reachable;
      holding += holders.contains(summer) ? 1 : 0;
    }
    if (strict && reachable > 0 && holding + (maker_has_it ? 1 : 0) < 2) return false;
    const bool held = hurried ? holding > 0 : reachable > 0 && holding == reachable;
    const bool to_be_had = (hurried || reachable == 0) && maker_has_it;
    if (!held && !to_be_had) return false;
  }
  return true;
}

// The maker's word may be lost with its link: it has what it made until it says otherwise.
bool ShardSupply::is_there() const {
  if (up.contains(contribution.region)) return true;
  for (std::uint32_t place = 0; place < places(); ++place) {
    const auto summers_of_place = summers.of(place);
    const bool had = std::ranges::any_of(
        summers_of_place, [this](const std::string& summer) { return has_it(summer); });
    if (!had) return false;
  }
  return true;
}

}  // namespace causeway::diloco
