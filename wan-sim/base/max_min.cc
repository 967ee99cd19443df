#include "wan-sim/base/max_min.h"

#include <algorithm>
#include <limits>

namespace causeway::wan_sim {

std::vector<double> max_min_rates(std::span<const double> capacities,
                                  std::span<const std::vector<std::uint32_t>> uses) {
  std::vector<double> left(capacities.begin(), capacities.end());
  std::vector<std::uint32_t> waiting(capacities.size(), 0);
  for (const auto& flow : uses) {
    for (const std::uint32_t resource : flow) ++waiting[resource];
  }
  constexpr double kUnserved = -1;
  std::vector<double> rates(uses.size(), kUnserved);
  for (;;) {
    double share = std::numeric_limits<double>::infinity();
    std::uint32_t bottleneck = 0;
    for (std::uint32_t i = 0; i < left.size(); ++i) {
      if (waiting[i] > 0 && left[i] / waiting[i] < share) {
        share = left[i] / waiting[i];
        bottleneck = i;
      }
    }
    if (share == std::numeric_limits<double>::infinity()) return rates;
    for (std::size_t i = 0; i < uses.size(); ++i) {
      if (rates[i] != kUnserved || std::ranges::find(uses[i], bottleneck) == uses[i].end())
        continue;
      rates[i] = share;
      for (const std::uint32_t resource : uses[i]) {
        left[resource] = std::max(0.0, left[resource] - share);
        --waiting[resource];
      }
    }
  }
}

}  // namespace causeway::wan_sim
