#include "apps/run/page/format.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace causeway::run {

std::string format_fixed(double value, int decimals) {
  return std::abs(value) < 1e15 ? fmt::format("{:.{}f}", value, decimals)
                                : fmt::format("{:.{}g}", value, decimals);
}

std::string format_loss(const std::optional<double>& loss, const std::string& unknown) {
  return loss && std::isfinite(*loss) ? format_fixed(*loss, 4) : unknown;
}

std::string format_money(double value) {
  constexpr int kDecimalsMax = 12;
  const double size = std::abs(value);
  if (size == 0 || size >= 0.1 || !std::isfinite(value)) return format_fixed(value, 2);
  const int decimals = 2 + static_cast<int>(std::floor(-std::log10(size)));
  return format_fixed(value, std::clamp(decimals, 3, kDecimalsMax));
}

std::string format_bytes(double bytes) {
  static constexpr std::array<const char*, 7> kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return format_fixed(bytes, decimals) + " " + kUnits[unit];
}

std::string format_duration(double seconds) {
  if (seconds < 9.95) return format_fixed(seconds, 1) + " s";
  // A run may be configured with any number of steps.
  const auto whole = static_cast<std::uint64_t>(std::llround(std::min(seconds, 1e18)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string format_count(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string format_steps(std::uint64_t taken, std::uint64_t of, const std::string& slash) {
  if (of == 0) return format_count(taken);
  const std::uint64_t of_run = std::min(taken, of);
  return format_count(of_run) + slash + format_count(of) +
         (taken > of ? " (+" + format_count(taken - of) + " alone)" : "");
}

}  // namespace causeway::run
