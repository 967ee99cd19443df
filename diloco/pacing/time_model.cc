#include "diloco/pacing/time_model.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>

namespace causeway::diloco::tuner {
namespace {

std::uint64_t exchanges_per_round(const Overlap& overlap) {
  return overlap.variant == Variant::streaming ? std::max<std::uint32_t>(1, overlap.fragments) : 1;
}

}  // namespace

std::string_view to_string(Variant variant) {
  return kVariants[static_cast<std::size_t>(variant)];
}

std::optional<Variant> parse_variant(std::string_view text) {
  const auto* const found = std::find(std::begin(kVariants), std::end(kVariants), text);
  if (found == std::end(kVariants)) return std::nullopt;
  return static_cast<Variant>(found - std::begin(kVariants));
}

std::uint64_t start_step(const Overlap& overlap, std::uint32_t k, std::uint64_t index) {
  return (index + 1) * k / exchanges_per_round(overlap);
}

std::uint64_t finish_step(const Overlap& overlap, std::uint32_t k, std::uint64_t index) {
  const std::uint64_t next = start_step(overlap, k, index + 1);
  switch (overlap.variant) {
    case Variant::synchronous:
      return start_step(overlap, k, index);
    case Variant::streaming:
      return std::min(next, start_step(overlap, k, index) + overlap.overlap_steps);
    case Variant::eager:
    case Variant::delayed:
      return next;
  }
  return next;
}

double round_s(std::uint32_t k, const Overlap& overlap, const RoundCosts& costs) {
  const std::uint64_t exchanges = exchanges_per_round(overlap);
  double waited_s = 0;
  for (std::uint64_t i = 0; i < exchanges; ++i) {
    const auto hidden_steps = finish_step(overlap, k, i) - start_step(overlap, k, i);
    waited_s += std::max(0.0, costs.exchange_s - static_cast<double>(hidden_steps) * costs.step_s);
  }
  return k * costs.step_s + costs.prepare_s + waited_s;
}

double utilisation(std::uint32_t k, const Overlap& overlap, const RoundCosts& costs) {
  return k * costs.step_s / round_s(k, overlap, costs);
}

double hiding_k(double step_s, double exchange_s) {
  assert(step_s > 0);
  return std::ceil(exchange_s / step_s);
}

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

}  // namespace

LinkFit fit_link(std::span<const Transfer> transfers) {
  assert(!transfers.empty());
  LinkFit out;
  const Sums s = sum(transfers);
  const double determinant = s.one * s.bytes_squared - s.bytes * s.bytes;
  const bool one_size = determinant <= 1e-9 * s.one * s.bytes_squared;
  if (!one_size) {
    out.seconds_per_byte = (s.one * s.bytes_seconds - s.bytes * s.seconds) / determinant;
    out.latency_s = (s.seconds - out.seconds_per_byte * s.bytes) / s.one;
  }
  if (one_size || out.latency_s < 0) {
    out.latency_s = 0;
    out.seconds_per_byte = s.bytes_squared > 0 ? s.bytes_seconds / s.bytes_squared : 0;
  }
  if (out.seconds_per_byte < 0 || s.bytes_squared <= 0) {
    out.seconds_per_byte = 0;
    out.latency_s = s.seconds / s.one;
  }
  return out;
}

double quantile(std::vector<double> samples, double share) {
  assert(!samples.empty());
  std::sort(samples.begin(), samples.end());
  const double place = share * static_cast<double>(samples.size() - 1);
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, samples.size() - 1);
  return samples[low] + (place - std::floor(place)) * (samples[high] - samples[low]);
}

}  // namespace causeway::diloco::tuner
