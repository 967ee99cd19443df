// LayerNorm (arXiv 1607.06450) and RMSNorm (arXiv 1910.07467), forward and backward.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "intra/model/kernels/norm_kernels.cc"
#include "hwy/foreach_target.h"
//
#include <cmath>

#include "hwy/highway.h"
#include "intra/model/kernels/kernels.h"
#include "intra/model/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace causeway::intra::HWY_NAMESPACE {

// Mean (zero for RMSNorm) and 1 / sqrt(variance + epsilon) of one row.
template <bool kCentred>
HWY_INLINE void row_statistics(const NormView& norm, const float* x, float* statistics) {
  const auto width = static_cast<float>(norm.width);
  float mean = 0;
  if constexpr (kCentred) {
    mean = sum_vectors(norm.width,
                       [&](auto d, std::int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); }) /
           width;
  }
  const float squares = sum_vectors(norm.width, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto centred = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    return hn::Mul(centred, centred);
  });
  statistics[0] = mean;
  statistics[1] = 1.0F / std::sqrt(squares / width + norm.epsilon);
}

template <bool kCentred>
HWY_INLINE void forward_rows(const NormView& norm, std::int64_t rows, const float* x, float* y,
                             float* statistics) {
  for (std::int64_t r = 0; r < rows; ++r, x += norm.width, y += norm.width, statistics += 2) {
    row_statistics<kCentred>(norm, x, statistics);
    const float mean = statistics[0], inverse = statistics[1];
    for_vectors(norm.width, [&](auto d, std::int64_t i) HWY_ATTR {
      const auto centred = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
      const auto scaled =
          hn::Mul(hn::Mul(centred, hn::Set(d, inverse)), hn::LoadU(d, norm.weight + i));
      if constexpr (kCentred) {
        hn::StoreU(hn::Add(scaled, hn::LoadU(d, norm.bias + i)), d, y + i);
      } else {
        hn::StoreU(scaled, d, y + i);
      }
    });
  }
}

// With h = (x - mean) * inverse and g = dy * weight:
// dx = inverse * (g - mean(g) - h * mean(g * h)), where RMSNorm lacks the middle term.
template <bool kCentred>
HWY_INLINE void backward_row(const NormView& norm, const float* x, const float* statistics,
                             const float* dy, float* dx, float* dweight, float* dbias) {
  const float mean = statistics[0], inverse = statistics[1];
  const auto width = static_cast<float>(norm.width);
  float g_mean = 0;
  if constexpr (kCentred) {
    g_mean = sum_vectors(norm.width,
                         [&](auto d, std::int64_t i) HWY_ATTR {
                           return hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, norm.weight + i));
                         }) /
             width;
  }
  const auto normalised = [&](auto d, std::int64_t i) HWY_ATTR {
    return hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)), hn::Set(d, inverse));
  };
  const float gh_mean =
      sum_vectors(norm.width,
                  [&](auto d, std::int64_t i) HWY_ATTR {
                    const auto g = hn::Mul(hn::LoadU(d, dy + i), hn::LoadU(d, norm.weight + i));
                    return hn::Mul(g, normalised(d, i));
                  }) /
      width;
  for_vectors(norm.width, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto h = normalised(d, i);
    const auto gradient = hn::LoadU(d, dy + i);
    hn::StoreU(hn::MulAdd(gradient, h, hn::LoadU(d, dweight + i)), d, dweight + i);
    if constexpr (kCentred) {
      hn::StoreU(hn::Add(gradient, hn::LoadU(d, dbias + i)), d, dbias + i);
    }
    const auto g = hn::Sub(hn::Mul(gradient, hn::LoadU(d, norm.weight + i)), hn::Set(d, g_mean));
    const auto inner = hn::NegMulAdd(h, hn::Set(d, gh_mean), g);
    hn::StoreU(hn::MulAdd(inner, hn::Set(d, inverse), hn::LoadU(d, dx + i)), d, dx + i);
  });
}

void norm_forward(const NormView& norm, std::int64_t rows, const float* x, float* y,
                  float* statistics) {
  if (norm.bias != nullptr) {
    forward_rows<true>(norm, rows, x, y, statistics);
  } else {
    forward_rows<false>(norm, rows, x, y, statistics);
  }
}

void norm_backward(const NormView& norm, std::int64_t rows, const float* x, const float* statistics,
                   const float* dy, float* dx, float* dweight, float* dbias) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto at = r * norm.width;
    if (norm.bias != nullptr) {
      backward_row<true>(norm, x + at, statistics + 2 * r, dy + at, dx + at, dweight, dbias);
    } else {
      backward_row<false>(norm, x + at, statistics + 2 * r, dy + at, dx + at, dweight, dbias);
    }
  }
}

}  // namespace causeway::intra::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace causeway::intra {

HWY_EXPORT(norm_forward);
HWY_EXPORT(norm_backward);

void norm_forward(const NormView& norm, std::int64_t rows, const float* x, float* y,
                  float* statistics) {
  HWY_DYNAMIC_DISPATCH(norm_forward)(norm, rows, x, y, statistics);
}
void norm_backward(const NormView& norm, std::int64_t rows, const float* x, const float* statistics,
                   const float* dy, float* dx, float* dweight, float* dbias) {
  HWY_DYNAMIC_DISPATCH(norm_backward)(norm, rows, x, statistics, dy, dx, dweight, dbias);
}

}  // namespace causeway::intra
#endif  // HWY_ONCE
