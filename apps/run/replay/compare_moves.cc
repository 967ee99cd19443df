#include "apps/run/replay/compare_moves.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "inter/base/text.h"

namespace causeway::run {
namespace {

constexpr std::size_t kTensorsShown = 3;

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string tensors_most_apart(const diloco::Layout& layout, std::span<const float> decided,
                               std::span<const float> changed) {
  std::vector<std::pair<double, std::string>> tensors;
  for (const diloco::PlacedTensor& tensor : layout.tensors()) {
    const auto of = [&](std::span<const float> all) {
      return all.subspan(tensor.offset, tensor.spec.count());
    };
    const std::vector<float> zeros(tensor.spec.count());
    tensors.emplace_back(apart(zeros, of(decided), of(changed)).norm_difference, tensor.spec.name);
  }
  std::ranges::sort(tensors, std::ranges::greater());
  std::string text;
  for (std::size_t i = 0; i < std::min(kTensorsShown, tensors.size()); ++i)
    inter::append_item(text, tensors[i].second + " " + short_number(tensors[i].first));
  return text;
}

}  // namespace

Apart apart(std::span<const float> origin, std::span<const float> a, std::span<const float> b) {
  double aa = 0, bb = 0, ab = 0, dd = 0;
  for (std::size_t i = 0; i < origin.size(); ++i) {
    const double x = double(a[i]) - origin[i], y = double(b[i]) - origin[i];
    aa += x * x;
    bb += y * y;
    ab += x * y;
    dd += (x - y) * (x - y);
  }
  const double norms = std::sqrt(aa) * std::sqrt(bb);
  return {std::sqrt(aa), std::sqrt(bb), std::sqrt(dd), norms > 0 ? ab / norms : 1};
}

std::vector<std::string> compare_moves(const diloco::Layout& layout, diloco::Round version,
                                       std::span<const float> before,
                                       std::span<const float> decided,
                                       std::span<const float> changed) {
  const Apart moves = apart(before, decided, changed);
  const std::string at = "version " + std::to_string(version) + ": ";
  return {at + "moved " + short_number(moves.norm_a) + " as decided, " +
              short_number(moves.norm_b) + " as changed, since the first changed round",
          at + "the difference has norm " + short_number(moves.norm_difference) +
              "; the cosine of the two moves is " + short_number(moves.cosine),
          at + "most apart: " + tensors_most_apart(layout, decided, changed)};
}

}  // namespace causeway::run
