// The memory-bound pieces, vectorised with Highway and dispatched at run time to the widest vectors
// the CPU has. Every function is serial and works on the rows it is given; callers split rows over
// threads. Arrays are row-major fp32 and need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "intra/model/kernels/philox.h"

namespace causeway::intra {

// --- norm_kernels.cc
// ----------------------------------------------------------------------

// One normalisation layer over rows of `width`. LayerNorm has a bias; RMSNorm has none and does not
// subtract the mean.
struct NormView {
  const float* weight = nullptr;
  const float* bias = nullptr;  // null: RMSNorm
  std::int64_t width = 0;
  float epsilon = 0;
};

// y = norm(x). statistics: (mean, 1 / deviation) of each row, kept for the backward pass.
void norm_forward(const NormView& norm, std::int64_t rows, const float* x, float* y,
                  float* statistics);

// dx += the gradient through the norm; dweight and dbias (null without bias) accumulate over the
// rows.
void norm_backward(const NormView& norm, std::int64_t rows, const float* x, const float* statistics,
                   const float* dy, float* dx, float* dweight, float* dbias);

// --- pointwise_kernels.cc
// ----------------------------------------------------------------------

// out = a + b.
void add(std::int64_t count, const float* a, const float* b, float* out);
// sums[c] += sum over rows of values[r, c].
void add_columns(std::int64_t rows, std::int64_t columns, std::int64_t stride, const float* values,
                 float* sums);

// GELU with the tanh approximation (arXiv 1606.08415).
void gelu_forward(std::int64_t count, const float* x, float* y);
// dx = gelu'(x) dy; dx may be dy.
void gelu_backward(std::int64_t count, const float* x, const float* dy, float* dx);

// y = silu(gate) * up (arXiv 2002.05202). A row of x is `hidden` gates, then `hidden` ups; strides
// are the distances between rows.
void swiglu_forward(std::int64_t rows, std::int64_t hidden, const float* x, std::int64_t x_stride,
                    float* y, std::int64_t y_stride);
// dx is laid out as x.
void swiglu_backward(std::int64_t rows, std::int64_t hidden, const float* x, std::int64_t x_stride,
                     const float* dy, std::int64_t y_stride, float* dx);

// To bfloat16, ties to even: as a float whose low half is zero (out may be values), or as the 16
// bits alone.
void round_to_bf16(std::int64_t count, const float* values, float* out);
void convert_to_bf16(std::int64_t count, const float* values, std::uint16_t* out);

// --- random_kernels.cc
// ----------------------------------------------------------------------

// Which mask: the key mixes seed and step, the site is the place in the network.
struct DropoutMask {
  PhiloxKey key{};
  std::uint32_t site = 0;
  float probability = 0;  // of zero
};

// values[i] <- 0 or values[i] / (1 - probability), decided by (mask, sample, first + i) alone;
// `first` is a multiple of kDropoutTile. Its own derivative: the backward pass calls it on the
// gradient.
inline constexpr std::int64_t kDropoutTile = 64;
void apply_dropout(const DropoutMask& mask, std::uint64_t sample, std::int64_t first,
                   std::int64_t count, float* values);

// Normal numbers by Marsaglia's polar method (1964), which makes two of a point in a circle: pairs
// `first` to `first` + kNormalPairs - 1 of those that `key` gives, times `deviation`. The same bits
// on every CPU. `first` is a multiple of kNormalPairs.
inline constexpr std::int64_t kNormalPairs = 64;
void draw_normal(PhiloxKey key, std::uint64_t first, double deviation, float* out);

// --- classifier_kernels.cc
// ----------------------------------------------------------------------

// Cross-entropy of one row, in nats.
float cross_entropy(std::int64_t vocabulary, const float* logits, std::int32_t target);
// The same, and logits <- scale * (softmax(logits) - onehot(target)).
float cross_entropy_with_gradient(std::int64_t vocabulary, float* logits, std::int32_t target,
                                  float scale);

// --- attention_kernels.cc
// ----------------------------------------------------------------------

// C (+)= A B for small matrices that stay in cache. A(i, k) = a[i * row + k * column], so a
// transposed A costs nothing. B and C are row-major; n is a multiple of vector_pad().
std::int64_t vector_pad();  // lanes of this machine, which divide kVectorPadMax
inline constexpr std::int64_t kVectorPadMax = 16;
struct StridedMatrix {
  const float* values;
  std::int64_t row, column;
};
void small_gemm(std::int64_t m, std::int64_t n, std::int64_t k, StridedMatrix a, const float* b,
                std::int64_t b_stride, float* c, std::int64_t c_stride, bool accumulate);

// out (columns, rows) = in (rows, columns) transposed.
void transpose(std::int64_t rows, std::int64_t columns, const float* in, std::int64_t in_stride,
               float* out, std::int64_t out_stride);

// scores[0 .. valid) <- softmax, scores[valid .. columns) <- 0; the row has room for a multiple of
// vector_pad() elements. Returns the row's log-sum-exp.
float causal_softmax(std::int64_t valid, std::int64_t columns, float* scores);
// The same from a known log-sum-exp.
void causal_softmax_again(std::int64_t valid, std::int64_t columns, float log_sum_exp,
                          float* scores);
// d_weights <- weights * (d_weights - sum(weights * d_weights)): softmax backwards, one row.
void softmax_backward(std::int64_t columns, const float* weights, float* d_weights);

// out = scale * in, rotated (arXiv 2104.09864; pairs are i and i + size / 2) if `cosine` is not
// null; direction -1 rotates back. `cosine` and `sine` are (rows, size / 2).
struct Rotation {
  const float* cosine = nullptr;
  const float* sine = nullptr;
  float direction = 1;
};
void copy_head(std::int64_t rows, std::int64_t size, float scale, Rotation rotation,
               const float* in, std::int64_t in_stride, float* out, std::int64_t out_stride);

}  // namespace causeway::intra
