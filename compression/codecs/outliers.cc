#include "compression/codecs/outliers.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace causeway::compression {
namespace {

double median_squared(std::span<const SentNorm> sent) {
  std::map<std::string_view, double> largest;
  for (const SentNorm& one : sent)
    largest[one.sender] = std::max(largest[one.sender], one.norm_squared);
  if (largest.size() < 3) return 0;
  std::vector<double> norms;
  for (const auto& [sender, norm_squared] : largest) norms.push_back(norm_squared);
  const auto middle = norms.begin() + static_cast<std::ptrdiff_t>(norms.size() / 2);
  std::ranges::nth_element(norms, middle);
  return *middle;
}

}  // namespace

std::string in_words(const Outlier& outlier) {
  char times[32];
  std::snprintf(times, sizeof times, "%.3g", outlier.times);
  return "would move the model " + std::string(times) + " times as far as what most regions sent";
}

std::vector<Outlier> outliers(std::span<const SentNorm> sent, double limit) {
  std::vector<Outlier> found;
  const double median = std::sqrt(median_squared(sent));
  if (median == 0) return found;
  for (const SentNorm& one : sent) {
    const double times = one.weight * std::sqrt(one.norm_squared) / median;
    if (times > limit) found.push_back({one.place, times});
  }
  return found;
}

}  // namespace causeway::compression
