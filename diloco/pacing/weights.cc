#include "diloco/pacing/weights.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>

namespace causeway::diloco {
namespace {

constexpr double kNormCap = 3;     // of the median
constexpr double kTokensCap = 16;  // of the median region
constexpr std::size_t kCappedFrom = 3;
constexpr double kReturning = 0.25;
constexpr double kDetached = 0.05;

// A contribution of no tokens at all still counts as one: weights must sum to something.
double told_tokens(const Offer& offer) {
  return std::max<double>(1, static_cast<double>(offer.contribution.tokens));
}

// By offer, in their order. Whatever a region says, in however many parts, the others' work counts.
std::vector<double> counted_tokens(std::span<const Offer> offers) {
  std::map<std::string, double> by_region;
  for (const Offer& offer : offers) by_region[offer.contribution.region] += told_tokens(offer);
  std::vector<double> sorted;
  for (const auto& [region, tokens] : by_region) sorted.push_back(tokens);
  std::ranges::sort(sorted);
  const double most = kTokensCap * sorted[sorted.size() / 2];
  std::vector<double> counted;
  for (const Offer& offer : offers) {
    const double all = by_region[offer.contribution.region];
    const bool capped = sorted.size() >= kCappedFrom && all > most;
    counted.push_back(told_tokens(offer) * (capped ? most / all : 1));
  }
  return counted;
}

double raw_weight(const Offer& offer, double tokens) {
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
  const std::vector<double> counted = counted_tokens(offers);
  double sum = 0, tokens = 0;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    sum += raw_weight(offers[i], counted[i]);
    tokens += counted[i];
  }
  const double median = offers.size() < kCappedFrom ? 0 : median_norm(offers);
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const double norm = offers[i].contribution.delta_norm;
    const bool capped = median > 0 && norm > kNormCap * median;
    const double scale = capped ? kNormCap * median / norm : 1;
    weights.values.push_back(static_cast<float>(raw_weight(offers[i], counted[i]) / sum * scale));
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
