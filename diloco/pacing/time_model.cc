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

}  // namespace causeway::diloco::tuner
