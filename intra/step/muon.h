// Muon's step (Jordan et al. 2024; constants and no Nesterov as in MuLoCo, arXiv 2505.23725):
//   M <- momentum M + G;  W <- (1 - lr weight_decay) W - lr 0.2 sqrt(max(out, in)) orthogonal(M)
// With this factor a step's root mean square is that of AdamW's steps (arXiv 2502.16982), so one
// learning rate does for both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "intra/base/adamw.h"
#include "intra/model/gemm.h"

namespace causeway::intra {

// What the step is on every device: which matrices, together with which others, by what numbers.

// (a, b, c) of X <- a X + (b A + c A A) X, once for each (MuLoCo's code; they come from the Polar
// Express, arXiv 2505.16932): the smallest singular values grow fastest at first, and all end near
// 1.
inline constexpr float kMuonPolynomials[5][3] = {{4.0848F, -6.8946F, 2.9270F},
                                                 {3.9505F, -6.3029F, 2.6377F},
                                                 {3.7418F, -5.5913F, 2.3037F},
                                                 {2.8769F, -3.1427F, 1.2046F},
                                                 {2.8366F, -3.0525F, 1.2012F}};

// W <- decay W - rate orthogonal(M), for a matrix of this shape.
struct MuonFactors {
  float decay = 0, rate = 0;
};
MuonFactors muon_factors(const InnerOptions& options, float lr, std::int64_t out, std::int64_t in);

// Those of one shape side by side, so that they are stepped together.
std::vector<MuonMatrix> muon_matrices_by_shape(const InnerOptions& options,
                                               const diloco::Layout& layout);
// The elements of each, ascending.
std::vector<Range> muon_elements(const InnerOptions& options, const diloco::Layout& layout);
// How many of `matrices`, the first ones, are stepped together: of one shape, and at most `most`,
// or one if that is less.
std::size_t muon_batch(std::span<const MuonMatrix> matrices, std::int64_t most);

bool lies_in(std::span<const Range> parts, const Range& range);

// Matrices of one shape, one after the other, each (out, in) and contiguous, become nearly
// orthogonal: about U V^T of their singular value decomposition U S V^T. Five iterations of
//   X <- a X + (b A + c A A) X,  A = X X^T (X^T X on the right, where there are more rows than
//   columns),  from X = M / ||M||_F
// One that is zero stays zero.
class Orthogonaliser {
 public:
  explicit Orthogonaliser(Products products) : products_(products), gemm_(products) {}

  // `matrices`: count x out x in elements.
  void run(std::int64_t count, std::int64_t out, std::int64_t in, std::span<float> matrices);

  // That it has for its work so far: of `elements` of matrices, whose Gram matrices have
  // `gram_elements`, working_bytes().
  std::uint64_t allocated_bytes() const;
  static std::uint64_t working_bytes(std::uint64_t elements, std::uint64_t gram_elements,
                                     Products products);
  // Floating-point operations for one matrix.
  static double flops(std::int64_t out, std::int64_t in);

 private:
  void iterate(const float (&polynomial)[3], std::int64_t count, std::int64_t out, std::int64_t in,
               std::span<float> matrices);
  // Rounded as products are, in `room` unless that is not needed.
  const void* operand(std::span<const float> values, std::vector<std::byte>& room) const;

  Products products_;
  Gemm gemm_;
  std::vector<float> gram_, square_, product_;
  std::vector<std::byte> matrices_operand_, gram_operand_;
};

class Muon {
 public:
  // Bytes that a step of all matrices takes besides the moments.
  static std::uint64_t working_bytes(const InnerOptions& options, const diloco::Layout& layout,
                                     Products products);
  // Floating-point operations of a step, however many tokens it is of.
  static double flops(const InnerOptions& options, const diloco::Layout& layout);

  Muon(const InnerOptions& options, const diloco::Layout& layout, Products products);

  std::span<const MuonMatrix> matrices() const { return matrices_; }
  std::uint64_t allocated_bytes() const;  // so far, as working_bytes()

  // Momentum of all matrices whose momentum `moments` has, and a step of those that lie in `own`:
  // parts of the flat span that ascend. `gradients` are multiplied by gradient_scale (clipping).
  void step(float lr, float gradient_scale, std::span<const Range> own, AdamW& moments,
            std::span<float> params, std::span<const float> gradients);

 private:
  void step_batch(float lr, std::span<const MuonMatrix> batch, AdamW& moments,
                  std::span<float> params);

  InnerOptions options_;
  std::vector<MuonMatrix> matrices_;
  Orthogonaliser orthogonaliser_;
  std::vector<float> steps_;  // of one batch
};

}  // namespace causeway::intra
