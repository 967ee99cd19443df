#include "intra/step/muon.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <tuple>

#include "intra/base/global_norm.h"

namespace causeway::intra {
namespace {

auto shape(const MuonMatrix& matrix) {
  return std::tuple(matrix.out, matrix.in);
}

// Small matrices are multiplied together, as many as have so many elements: a call of its own for
// each would take longer than its work.
constexpr std::int64_t kBatchElements = std::int64_t{1} << 21;
constexpr std::size_t kParallelMin = 1 << 15;  // a parallel loop costs some microseconds

std::size_t size_of(std::int64_t elements) {
  return static_cast<std::size_t>(elements);
}

std::size_t batch_of(std::span<const MuonMatrix> matrices) {
  return muon_batch(matrices, kBatchElements / (matrices.front().out * matrices.front().in));
}

template <class Element>
void for_elements(std::size_t count, Element&& element) {
#pragma omp parallel for schedule(static) if (count >= kParallelMin)
  for (std::size_t i = 0; i < count; ++i) element(i);
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

const void* Orthogonaliser::operand(std::span<const float> values,
                                    std::vector<std::byte>& room) const {
  if (products_ == Products::fp32) return values.data();
  room.resize(values.size() * operand_bytes(products_));
  make_operand(products_, static_cast<std::int64_t>(values.size()), values.data(), room.data());
  return room.data();
}

double Orthogonaliser::flops(std::int64_t out, std::int64_t in) {
  const auto small = static_cast<double>(std::min(out, in));
  const double product = 2 * small * static_cast<double>(out) * static_cast<double>(in);
  return std::size(kMuonPolynomials) * (2 * product + 2 * small * small * small);
}

std::uint64_t Orthogonaliser::working_bytes(std::uint64_t elements, std::uint64_t gram_elements,
                                            Products products) {
  const std::uint64_t operand = products == Products::fp32 ? 0 : operand_bytes(products);
  return elements * (sizeof(float) + operand) + gram_elements * (2 * sizeof(float) + operand);
}

std::uint64_t Orthogonaliser::allocated_bytes() const {
  const std::size_t floats = gram_.size() + square_.size() + product_.size();
  return sizeof(float) * floats + matrices_operand_.size() + gram_operand_.size();
}

void Orthogonaliser::run(std::int64_t count, std::int64_t out, std::int64_t in,
                         std::span<float> matrices) {
  const std::size_t elements = size_of(out * in);
  assert(matrices.size() == size_of(count) * elements);
  for (std::size_t begin = 0; begin < matrices.size(); begin += elements) {
    const std::span<float> matrix = matrices.subspan(begin, elements);
    const double norm = global_norm(matrix);
    const float factor = norm > 0 ? static_cast<float>(1 / norm) : 0.0F;
    for_elements(elements, [&](std::size_t i) { matrix[i] *= factor; });
  }
  for (const auto& polynomial : kMuonPolynomials) iterate(polynomial, count, out, in, matrices);
}

void Orthogonaliser::iterate(const float (&polynomial)[3], std::int64_t count, std::int64_t out,
                             std::int64_t in, std::span<float> matrices) {
  const auto [a, b, c] = polynomial;
  const bool tall = out > in;
  const std::int64_t small = std::min(out, in);
  const LinearShape square{small, small, small, small, small, count};
  gram_.resize(size_of(count * small * small));
  square_.resize(gram_.size());
  product_.resize(matrices.size());

  const void* const x = operand(matrices, matrices_operand_);
  if (tall) {
    gemm_.backward_weight({out, in, in, in, in, count}, x, x, gram_.data(), false);
  } else {
    gemm_.forward({out, in, out, in, out, count}, x, x, nullptr, gram_.data());
  }
  const void* const gram = operand(gram_, gram_operand_);
  gemm_.forward(square, gram, gram, nullptr, square_.data());  // it is symmetric
  for_elements(gram_.size(),
               [&, b = b, c = c](std::size_t i) { gram_[i] = b * gram_[i] + c * square_[i]; });
  const void* const factor = operand(gram_, gram_operand_);
  if (tall) {
    gemm_.forward({out, in, in, in, in, count}, x, factor, nullptr, product_.data());
  } else {
    gemm_.backward_input({out, in, out, in, out, count}, factor, x, product_.data(), false);
  }
  for_elements(matrices.size(),
               [&, a = a](std::size_t i) { matrices[i] = a * matrices[i] + product_[i]; });
}

Muon::Muon(const InnerOptions& options, const diloco::Layout& layout, Products products)
    : options_(options),
      matrices_(muon_matrices_by_shape(options, layout)),
      orthogonaliser_(products) {}

// Rooms keep the size of the largest batch.
std::uint64_t Muon::working_bytes(const InnerOptions& options, const diloco::Layout& layout,
                                  Products products) {
  std::uint64_t elements = 0, gram_elements = 0;
  const std::vector<MuonMatrix> matrices = muon_matrices_by_shape(options, layout);
  for (std::span<const MuonMatrix> left = matrices; !left.empty();) {
    const std::size_t count = batch_of(left);
    const auto [out, in] = shape(left.front());
    const std::int64_t small = std::min(out, in);
    elements = std::max(elements, count * size_of(out * in));
    gram_elements = std::max(gram_elements, count * size_of(small * small));
    left = left.subspan(count);
  }
  return sizeof(float) * elements +
         Orthogonaliser::working_bytes(elements, gram_elements, products);
}

std::uint64_t Muon::allocated_bytes() const {
  return std::span(steps_).size_bytes() + orthogonaliser_.allocated_bytes();
}

double Muon::flops(const InnerOptions& options, const diloco::Layout& layout) {
  double sum = 0;
  for (const MuonMatrix& matrix : muon_matrices(options, layout))
    sum += Orthogonaliser::flops(matrix.out, matrix.in);
  return sum;
}

void Muon::step(float lr, float gradient_scale, std::span<const Range> own, AdamW& moments,
                std::span<float> params, std::span<const float> gradients) {
  std::vector<MuonMatrix> mine;
  for (const MuonMatrix& matrix : matrices_) {
    const bool is_mine = lies_in(own, matrix.elements);
    if (is_mine) mine.push_back(matrix);
    if (!is_mine && !moments.has_all()) continue;
    const std::span<float> momentum = moments.first_moment_of(matrix.elements);
    const float* const gradient = &gradients[matrix.elements.begin];
    for_elements(momentum.size(), [&](std::size_t i) {
      momentum[i] = options_.momentum * momentum[i] + gradient_scale * gradient[i];
    });
  }
  for (std::span<const MuonMatrix> left = mine; !left.empty();) {
    const std::size_t count = batch_of(left);
    step_batch(lr, left.first(count), moments, params);
    left = left.subspan(count);
  }
}

void Muon::step_batch(float lr, std::span<const MuonMatrix> batch, AdamW& moments,
                      std::span<float> params) {
  const std::int64_t out = batch.front().out, in = batch.front().in;
  const std::size_t elements = size_of(out * in);
  steps_.resize(batch.size() * elements);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const float> momentum = moments.first_moment_of(batch[i].elements);
    std::ranges::copy(momentum.first(elements), &steps_[i * elements]);
  }
  orthogonaliser_.run(static_cast<std::int64_t>(batch.size()), out, in, steps_);
  const MuonFactors factors = muon_factors(options_, lr, out, in);
  for (std::size_t m = 0; m < batch.size(); ++m) {
    float* const param = &params[batch[m].elements.begin];
    const float* const step = &steps_[m * elements];
    for_elements(elements, [&](std::size_t i) {
      param[i] = factors.decay * param[i] - factors.rate * step[i];
    });
  }
}

}  // namespace causeway::intra
