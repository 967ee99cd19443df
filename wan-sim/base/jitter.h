// Jitter: what is added to a link's delay, segment by segment. Pure, and drawn by key.
//
// A standard normal number z is drawn, correlated with the flow's one before by AR(1), and mapped
// to the distribution through its quantile function: whatever the correlation is, each draw has
// exactly the distribution asked for (a Gaussian copula).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "wan-sim/base/time.h"

namespace causeway::wan_sim {

enum class JitterShape : std::uint8_t {
  half_normal,  // scale x |N(0, 1)|: only ever later; the default
  constant,     // scale
  uniform,      // between -scale and +scale
  normal,       // scale x N(0, 1)
  lognormal,    // scale x exp(parameter x N(0, 1)): scale is the median
  pareto,  // Lomax: scale x ((1 - u)^(-1 / parameter) - 1): from 0, mean scale / (parameter - 1)
  table,   // measured values: linear between equally spaced quantiles; scale unused
};
inline constexpr std::string_view kJitterShapes[] = {"half-normal", "constant", "uniform", "normal",
                                                     "lognormal",   "pareto",   "table"};

struct JitterProfile {
  JitterShape shape = JitterShape::half_normal;
  std::chrono::microseconds scale{0};
  double parameter = 0;            // lognormal: sigma; pareto: alpha
  double correlation = 0;          // of z with the flow's z before, in [0, 1)
  std::vector<double> table_ms{};  // ascending
  bool operator==(const JitterProfile&) const = default;
};

// The value of a draw. May be negative: the link sees to it that nothing arrives before it was
// sent.
Time jitter_of(const JitterProfile& profile, double z);

// The draws of one flow. A segment that begins on the grid continues the chain of grid points,
// whatever lay between, so that bulk data draws the same again however its reads were cut.
class JitterChain {
 public:
  double draw(const JitterProfile& profile, std::uint64_t key, bool on_grid);

 private:
  double grid_ = 0, last_ = 0;
  bool grid_begun_ = false, begun_ = false;
};

}  // namespace causeway::wan_sim
