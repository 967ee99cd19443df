#include "intra/step/muon_matrices.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace causeway::intra {
namespace {

auto shape(const MuonMatrix& matrix) {
  return std::tuple(matrix.out, matrix.in);
}

}  // namespace

MuonFactors muon_factors(const InnerOptions& options, float lr, std::int64_t out, std::int64_t in) {
  return {.decay = static_cast<float>(1 - static_cast<double>(lr) * options.weight_decay),
          .rate = lr * 0.2F * std::sqrt(static_cast<float>(std::max(out, in)))};
}

std::vector<MuonMatrix> muon_matrices_by_shape(const InnerOptions& options,
                                               const diloco::Layout& layout) {
  std::vector<MuonMatrix> matrices = muon_matrices(options, layout);
  std::ranges::stable_sort(matrices, {}, shape);
  return matrices;
}

std::vector<Range> muon_elements(const InnerOptions& options, const diloco::Layout& layout) {
  std::vector<Range> elements;
  for (const MuonMatrix& matrix : muon_matrices(options, layout))
    elements.push_back(matrix.elements);
  return elements;
}

std::size_t muon_batch(std::span<const MuonMatrix> matrices, std::int64_t most) {
  const std::size_t end =
      std::min(static_cast<std::size_t>(std::max<std::int64_t>(most, 1)), matrices.size());
  std::size_t count = 1;
  while (count < end && shape(matrices[count]) == shape(matrices.front())) ++count;
  return count;
}

bool lies_in(std::span<const Range> parts, const Range& range) {
  return std::ranges::any_of(
      parts, [&](const Range& part) { return part.begin <= range.begin && range.end <= part.end; });
}

}  // namespace causeway::intra
