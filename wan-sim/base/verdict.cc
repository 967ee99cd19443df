#include "wan-sim/base/verdict.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace causeway::wan_sim {

void Lateness::add(std::chrono::nanoseconds late) {
  const double us = std::max(1.0, static_cast<double>(late.count()) / 1000);
  const int bucket = static_cast<int>(std::ceil(std::log2(us) * kPerOctave));
  ++counts_[static_cast<std::size_t>(std::min(bucket, kBuckets - 1))];
  ++total_;
}

std::chrono::microseconds Lateness::quantile(double fraction) const {
  if (total_ == 0) return std::chrono::microseconds{0};
  const auto wanted = static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(total_)));
  std::uint64_t seen = 0;
  int bucket = 0;
  while (bucket < kBuckets - 1 && (seen += counts_[static_cast<std::size_t>(bucket)]) < wanted)
    ++bucket;
  const double us = std::ceil(std::exp2(static_cast<double>(bucket) / kPerOctave));
  return std::chrono::microseconds(static_cast<std::int64_t>(us));
}

namespace {

double in_ms(std::chrono::microseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

bool kept_up(const Verdict& verdict) {
  return verdict.lateness_p99 <= verdict.lateness_max && verdict.shortfall <= kShortfallMax;
}

}  // namespace

bool Verdict::valid() const {
  return kept_up(*this) && silent.empty();
}

std::string to_string(const Verdict& verdict) {
  std::string text = fmt::format(
      "{}: bytes were released up to {:.2f} ms late (99 %; at most {:.2f} ms allowed), and "
      "{:.1f} % of what a link could carry was missed (at most {:.0f} % allowed)",
      verdict.valid() ? "valid" : "INVALID", in_ms(verdict.lateness_p99),
      in_ms(verdict.lateness_max), 100 * verdict.shortfall, 100 * kShortfallMax);
  if (!kept_up(verdict)) text += "; this run describes the machine, not the WAN";
  for (const std::string& pair : verdict.silent) text += "; " + pair + " carried nothing";
  if (!verdict.silent.empty()) {
    text +=
        ". A program that finds its peers' addresses by itself (Gloo, NCCL, MPI) goes past the "
        "relay; run it with --engine packet";
  }
  return text;
}

}  // namespace causeway::wan_sim
