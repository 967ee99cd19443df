#include "diloco/pacing/link_fit.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace causeway::diloco::tuner {
namespace {

// Sums of the normal equations of min sum (alpha + beta b - t)^2 / t^2.
struct Sums {
  double one = 0, bytes = 0, bytes_squared = 0, seconds = 0, bytes_seconds = 0;
};

Sums sum(std::span<const Transfer> transfers) {
  Sums sums;
  for (const auto& [bytes, seconds] : transfers) {
    assert(seconds > 0);
    const double weight = 1 / (seconds * seconds);
    sums.one += weight;
    sums.bytes += weight * bytes;
    sums.bytes_squared += weight * bytes * bytes;
    sums.seconds += weight * seconds;
    sums.bytes_seconds += weight * bytes * seconds;
  }
  return sums;
}

void fit(const Sums& s, double known_latency_s, LinkFit& out) {
  const double determinant = s.one * s.bytes_squared - s.bytes * s.bytes;
  const bool one_size = determinant <= 1e-9 * s.one * s.bytes_squared;
  if (!one_size) {
    out.seconds_per_byte = (s.one * s.bytes_seconds - s.bytes * s.seconds) / determinant;
    out.latency_s = (s.seconds - out.seconds_per_byte * s.bytes) / s.one;
  }
  if (one_size || out.latency_s < 0) {
    out.latency_s = one_size ? known_latency_s : 0;
    out.seconds_per_byte =
        s.bytes_squared > 0 ? (s.bytes_seconds - out.latency_s * s.bytes) / s.bytes_squared : 0;
  }
  if (out.seconds_per_byte < 0 || s.bytes_squared <= 0) {
    out.seconds_per_byte = 0;
    out.latency_s = s.seconds / s.one;
  }
}

}  // namespace

double quantile(std::vector<double> samples, double share) {
  assert(!samples.empty());
  std::sort(samples.begin(), samples.end());
  const double place = share * static_cast<double>(samples.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, samples.size() - 1);
  return samples[low] + (place - std::floor(place)) * (samples[high] - samples[low]);
}

LinkFit fit_link(std::span<const Transfer> transfers, double latency_s) {
  assert(!transfers.empty());
  LinkFit out;
  fit(sum(transfers), latency_s, out);
  std::vector<double> ratios;
  for (const Transfer& transfer : transfers) {
    const double fitted_s = out.seconds(transfer.bytes);
    ratios.push_back(fitted_s > 0 ? transfer.seconds / fitted_s : 1);
  }
  out.p50 = quantile(ratios, 0.5);
  out.p95 = quantile(ratios, 0.95);
  return out;
}

}  // namespace causeway::diloco::tuner
