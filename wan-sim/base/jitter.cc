#include "wan-sim/base/jitter.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "wan-sim/base/chance.h"

namespace causeway::wan_sim {
namespace {

// Heavy tails have no end; a simulated one does.
constexpr double kJitterMaxS = 60;

double normal_distribution(double z) {
  return 0.5 * std::erfc(-z / std::numbers::sqrt2);
}

double table_value_ms(const std::vector<double>& table, double u) {
  if (table.empty()) return 0;
  const double place = u * static_cast<double>(table.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, table.size() - 1);
  return std::lerp(table[below], table[above], place - static_cast<double>(below));
}

double value_s(const JitterProfile& profile, double z) {
  const double scale = std::chrono::duration<double>(profile.scale).count();
  switch (profile.shape) {
    case JitterShape::half_normal:
      return scale * std::abs(z);
    case JitterShape::constant:
      return scale;
    case JitterShape::uniform:
      return scale * (2 * normal_distribution(z) - 1);
    case JitterShape::normal:
      return scale * z;
    case JitterShape::lognormal:
      return scale * std::exp(profile.parameter * z);
    case JitterShape::pareto:  // 1 - Phi(z) = Phi(-z), without cancellation
      return scale * (std::pow(normal_distribution(-z), -1 / profile.parameter) - 1);
    case JitterShape::table:
      return table_value_ms(profile.table_ms, normal_distribution(z)) / 1000;
  }
  return 0;
}

Time from_s(double seconds) {
  return Time(static_cast<Time::rep>(1e9 * std::min(seconds, kJitterMaxS)));
}

}  // namespace

Time jitter_of(const JitterProfile& profile, double z) {
  return from_s(value_s(profile, z));
}

double JitterChain::draw(const JitterProfile& profile, std::uint64_t key, bool on_grid) {
  const double fresh = normal(key);
  const double rho = profile.correlation;
  const double before = on_grid ? grid_ : last_;
  const bool first = on_grid ? !grid_begun_ : !begun_;
  last_ = rho == 0 || first ? fresh : rho * before + std::sqrt(1 - rho * rho) * fresh;
  begun_ = true;
  if (on_grid) {
    grid_ = last_;
    grid_begun_ = true;
  }
  return last_;
}

}  // namespace causeway::wan_sim
