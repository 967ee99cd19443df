// What attention needs within one head: small matrix products, softmax both ways, and moving heads
// in and out of packed scratch.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "intra/model/kernels/attention_kernels.cc"
#include "hwy/foreach_target.h"
//
#include <algorithm>
#include <cmath>

#include "hwy/highway.h"
#include "intra/model/kernels/kernels.h"
#include "intra/model/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace causeway::intra::HWY_NAMESPACE {

std::int64_t vector_pad() {
  return static_cast<std::int64_t>(hn::Lanes(hn::CappedTag<float, kVectorPadMax>()));
}

// kRows x kVectors registers of C. Six rows by two vectors use 12 accumulators of AVX2's 16
// registers; the rest hold B and the broadcast element of A, and twelve independent sums hide the
// latency of a multiply-add.
template <int kRows, int kVectors>
HWY_INLINE void gemm_tile(std::int64_t k, StridedMatrix a, const float* HWY_RESTRICT b,
                          std::int64_t b_stride, float* HWY_RESTRICT c, std::int64_t c_stride,
                          bool accumulate) {
  const hn::CappedTag<float, kVectorPadMax> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = accumulate ? hn::LoadU(d, c + r * c_stride + v * lanes) : hn::Zero(d);
    }
  }
  const float* element = a.values;
  for (std::int64_t step = 0; step < k; ++step, b += b_stride, element += a.column) {
    hn::Vec<decltype(d)> row[kVectors];
    for (int v = 0; v < kVectors; ++v) row[v] = hn::LoadU(d, b + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const auto factor = hn::Set(d, element[r * a.row]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(factor, row[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, c + r * c_stride + v * lanes);
  }
}

template <int kRows>
HWY_INLINE void gemm_rows(std::int64_t n, std::int64_t k, StridedMatrix a, const float* b,
                          std::int64_t b_stride, float* c, std::int64_t c_stride, bool accumulate) {
  const auto lanes = vector_pad();
  std::int64_t j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes) {
    gemm_tile<kRows, 2>(k, a, b + j, b_stride, c + j, c_stride, accumulate);
  }
  for (; j < n; j += lanes) gemm_tile<kRows, 1>(k, a, b + j, b_stride, c + j, c_stride, accumulate);
}

void small_gemm(std::int64_t m, std::int64_t n, std::int64_t k, StridedMatrix a, const float* b,
                std::int64_t b_stride, float* c, std::int64_t c_stride, bool accumulate) {
  constexpr std::int64_t kStep = 6;
  for (std::int64_t i = 0; i < m; i += kStep) {
    const StridedMatrix rows{a.values + i * a.row, a.row, a.column};
    float* out = c + i * c_stride;
    switch (std::min(kStep, m - i)) {
      case 6:
        gemm_rows<6>(n, k, rows, b, b_stride, out, c_stride, accumulate);
        break;
      case 5:
        gemm_rows<5>(n, k, rows, b, b_stride, out, c_stride, accumulate);
        break;
      case 4:
        gemm_rows<4>(n, k, rows, b, b_stride, out, c_stride, accumulate);
        break;
      case 3:
        gemm_rows<3>(n, k, rows, b, b_stride, out, c_stride, accumulate);
        break;
      case 2:
        gemm_rows<2>(n, k, rows, b, b_stride, out, c_stride, accumulate);
        break;
      default:
        gemm_rows<1>(n, k, rows, b, b_stride, out, c_stride, accumulate);
    }
  }
}

// out (4, 4) = in (4, 4) transposed.
HWY_INLINE void transpose_block(const float* in, std::int64_t in_stride, float* out,
                                std::int64_t out_stride) {
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t r = 0; r < 4; ++r) {
    for (std::int64_t c = 0; c < 4; ++c) out[c * out_stride + r] = in[r * in_stride + c];
  }
#else
  const hn::FixedTag<float, 4> d;
  const auto r0 = hn::LoadU(d, in), r1 = hn::LoadU(d, in + in_stride);
  const auto r2 = hn::LoadU(d, in + 2 * in_stride), r3 = hn::LoadU(d, in + 3 * in_stride);
  const auto a = hn::InterleaveLower(d, r0, r2), b = hn::InterleaveLower(d, r1, r3);
  const auto e = hn::InterleaveUpper(d, r0, r2), f = hn::InterleaveUpper(d, r1, r3);
  hn::StoreU(hn::InterleaveLower(d, a, b), d, out);
  hn::StoreU(hn::InterleaveUpper(d, a, b), d, out + out_stride);
  hn::StoreU(hn::InterleaveLower(d, e, f), d, out + 2 * out_stride);
  hn::StoreU(hn::InterleaveUpper(d, e, f), d, out + 3 * out_stride);
#endif
}

void transpose(std::int64_t rows, std::int64_t columns, const float* in, std::int64_t in_stride,
               float* out, std::int64_t out_stride) {
  for (std::int64_t r = 0; r < rows; r += 4) {
    const bool whole_rows = r + 4 <= rows;
    std::int64_t c = 0;
    for (; whole_rows && c + 4 <= columns; c += 4) {
      transpose_block(in + r * in_stride + c, in_stride, out + c * out_stride + r, out_stride);
    }
    for (; c < columns; ++c) {
      for (std::int64_t i = r; i < std::min(r + 4, rows); ++i)
        out[c * out_stride + i] = in[i * in_stride + c];
    }
  }
}

// Fills up a row's last vector with scores whose exponentials are zero, so that no element is left
// for a loop over single ones: half the rows of attention are shorter than a few vectors. Returns
// the padded length.
HWY_INLINE std::int64_t pad_scores(std::int64_t valid, float* scores) {
  const auto lanes = vector_pad();
  const auto padded = (valid + lanes - 1) / lanes * lanes;
  std::fill(scores + valid, scores + padded, -1e30F);
  return padded;
}

float causal_softmax(std::int64_t valid, std::int64_t columns, float* scores) {
  const auto padded = pad_scores(valid, scores);
  const float top = max_of(padded, scores);
  const float sum = sum_vectors(padded, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto weight = hn::Exp(d, hn::Sub(hn::LoadU(d, scores + i), hn::Set(d, top)));
    hn::StoreU(weight, d, scores + i);
    return weight;
  });
  const float scale = 1.0F / sum;
  for_vectors(padded, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, scores + i), hn::Set(d, scale)), d, scores + i);
  });
  if (padded < columns) std::fill(scores + padded, scores + columns, 0.0F);
  return std::log(sum) + top;
}

void causal_softmax_again(std::int64_t valid, std::int64_t columns, float log_sum_exp,
                          float* scores) {
  const auto padded = pad_scores(valid, scores);
  for_vectors(padded, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto score = hn::LoadU(d, scores + i);
    hn::StoreU(hn::Exp(d, hn::Sub(score, hn::Set(d, log_sum_exp))), d, scores + i);
  });
  if (padded < columns) std::fill(scores + padded, scores + columns, 0.0F);
}

void softmax_backward(std::int64_t columns, const float* weights, float* d_weights) {
  const float dot = sum_vectors(columns, [&](auto d, std::int64_t i) HWY_ATTR {
    return hn::Mul(hn::LoadU(d, weights + i), hn::LoadU(d, d_weights + i));
  });
  for_vectors(columns, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto centred = hn::Sub(hn::LoadU(d, d_weights + i), hn::Set(d, dot));
    hn::StoreU(hn::Mul(centred, hn::LoadU(d, weights + i)), d, d_weights + i);
  });
}

HWY_INLINE void rotate_row(std::int64_t half, float scale, const float* cosine, const float* sine,
                           float direction, const float* in, float* out) {
  for_vectors(half, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto c = hn::Mul(hn::LoadU(d, cosine + i), hn::Set(d, scale));
    const auto s = hn::Mul(hn::LoadU(d, sine + i), hn::Set(d, scale * direction));
    const auto first = hn::LoadU(d, in + i), second = hn::LoadU(d, in + half + i);
    hn::StoreU(hn::NegMulAdd(second, s, hn::Mul(first, c)), d, out + i);
    hn::StoreU(hn::MulAdd(first, s, hn::Mul(second, c)), d, out + half + i);
  });
}

void copy_head(std::int64_t rows, std::int64_t size, float scale, Rotation rotation,
               const float* in, std::int64_t in_stride, float* out, std::int64_t out_stride) {
  for (std::int64_t r = 0; r < rows; ++r, in += in_stride, out += out_stride) {
    if (rotation.cosine != nullptr) {
      const auto at = r * (size / 2);
      rotate_row(size / 2, scale, rotation.cosine + at, rotation.sine + at, rotation.direction, in,
                 out);
    } else {
      for_vectors(size, [&](auto d, std::int64_t i) HWY_ATTR {
        hn::StoreU(hn::Mul(hn::LoadU(d, in + i), hn::Set(d, scale)), d, out + i);
      });
    }
  }
}

}  // namespace causeway::intra::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace causeway::intra {

HWY_EXPORT(vector_pad);
HWY_EXPORT(small_gemm);
HWY_EXPORT(transpose);
HWY_EXPORT(causal_softmax);
HWY_EXPORT(causal_softmax_again);
HWY_EXPORT(softmax_backward);
HWY_EXPORT(copy_head);

std::int64_t vector_pad() {
  return HWY_DYNAMIC_DISPATCH(vector_pad)();
}
void small_gemm(std::int64_t m, std::int64_t n, std::int64_t k, StridedMatrix a, const float* b,
                std::int64_t b_stride, float* c, std::int64_t c_stride, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(small_gemm)(m, n, k, a, b, b_stride, c, c_stride, accumulate);
}
void transpose(std::int64_t rows, std::int64_t columns, const float* in, std::int64_t in_stride,
               float* out, std::int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(transpose)(rows, columns, in, in_stride, out, out_stride);
}
float causal_softmax(std::int64_t valid, std::int64_t columns, float* scores) {
  return HWY_DYNAMIC_DISPATCH(causal_softmax)(valid, columns, scores);
}
void causal_softmax_again(std::int64_t valid, std::int64_t columns, float log_sum_exp,
                          float* scores) {
  HWY_DYNAMIC_DISPATCH(causal_softmax_again)(valid, columns, log_sum_exp, scores);
}
void softmax_backward(std::int64_t columns, const float* weights, float* d_weights) {
  HWY_DYNAMIC_DISPATCH(softmax_backward)(columns, weights, d_weights);
}
void copy_head(std::int64_t rows, std::int64_t size, float scale, Rotation rotation,
               const float* in, std::int64_t in_stride, float* out, std::int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(copy_head)(rows, size, scale, rotation, in, in_stride, out, out_stride);
}

}  // namespace causeway::intra
#endif  // HWY_ONCE
