#include "wan-sim/base/lateness.h"

#include <algorithm>
#include <cmath>

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

}  // namespace causeway::wan_sim
