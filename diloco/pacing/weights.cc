#include "diloco/pacing/weights.h"

#include <algorithm>
#include <cmath>

namespace causeway::diloco {
namespace {

constexpr double kNormCap = 3;  // of the median
constexpr double kReturning = 0.25;
constexpr double kDetached = 0.05;

double raw_weight(const Offer& offer) {
  // A contribution of no tokens at all still counts as one: weights must sum to something.
  const double tokens = std::max<double>(1, static_cast<double>(offer.contribution.tokens));
  return tokens * offer.liveness / std::sqrt(1.0 + static_cast<double>(offer.staleness));
}

double median_norm(std::span<const Offer> offers) {
  std::vector<double> norms;
  for (const Offer& offer : offers) norms.push_back(offer.contribution.delta_norm);
  const auto middle = norms.begin() + static_cast<std::ptrdiff_t>(norms.size() / 2);
  std::ranges::nth_element(norms, middle);
  return *middle;
}

}  // namespace

Weights weigh(std::span<const Offer> offers, std::size_t regions) {
  Weights weights;
  weights.skip_momentum = true;
  if (offers.empty()) return weights;
  double sum = 0, tokens = 0;
  for (const Offer& offer : offers) {
    sum += raw_weight(offer);
    tokens += std::max<double>(1, static_cast<double>(offer.contribution.tokens));
  }
  const double median = offers.size() < 3 ? 0 : median_norm(offers);
  for (const Offer& offer : offers) {
    const double norm = offer.contribution.delta_norm;
    const bool capped = median > 0 && norm > kNormCap * median;
    const double scale = capped ? kNormCap * median / norm : 1;
    weights.values.push_back(static_cast<float>(raw_weight(offer) / sum * scale));
  }
  const double in_full = tokens / static_cast<double>(offers.size()) * static_cast<double>(regions);
  weights.skip_momentum = sum < in_full / 2;
  return weights;
}

double liveness_after(double liveness, bool listed) {
  if (listed) return std::min(1.0, liveness + kReturning);
  return liveness / 2 < kDetached ? 0 : liveness / 2;
}

double liveness_as_weight(double liveness) {
  return std::max(liveness, kReturning);
}

}  // namespace causeway::diloco
