// The passes over one chunk that all codecs share.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/kernels/chunk.cc"
#include "hwy/foreach_target.h"
//
#include <array>

#include "compression/chunk.h"
#include "compression/kernels/vector-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace causeway::compression::HWY_NAMESPACE {

using Doubles = hn::CappedTag<double, 8>;

HWY_INLINE auto square_at(const float* from) {
  const Doubles d;
  const auto x = hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, Doubles>(), from));
  return hn::Mul(x, x);
}

// Two vectors of lanes at a time: their sums stay in registers down all rows.
double sum_of_squares(ChunkView chunk, const float* upcoming) {
  constexpr std::size_t kSums = 256;
  const Doubles d;
  const std::size_t lanes = hn::Lanes(d);
  alignas(64) std::array<double, kSums> sums;
  for (std::size_t at = 0; at < kSums; at += 2 * lanes) {
    const std::size_t share = 2 * lanes * (kChunk / kSums);
    if (upcoming != nullptr) prefetch(upcoming + at * (kChunk / kSums), share);
    auto first = hn::Zero(d), second = hn::Zero(d);
    for (std::size_t row = at; row < kChunk; row += kSums) {
      first = hn::Add(first, square_at(chunk.data() + row));
      second = hn::Add(second, square_at(chunk.data() + row + lanes));
    }
    hn::Store(first, d, sums.data() + at);
    hn::Store(second, d, sums.data() + at + lanes);
  }
  for (std::size_t half = kSums / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

bool all_finite(ChunkView chunk) {
  const Wide d;
  const Integers<Wide> di;
  auto largest = hn::Zero(di);
  for (std::size_t i = 0; i < kChunk; i += hn::Lanes(d)) {
    largest = hn::Max(largest, magnitudes(d, hn::LoadU(d, chunk.data() + i)));
  }
  return hn::GetLane(hn::MaxOfLanes(di, largest)) < static_cast<std::int32_t>(kInfinityBits);
}

bool add_decayed(ChunkView delta, float beta, ChunkSpan residual, ChunkSpan before) {
  const Wide d;
  const Integers<Wide> di;
  const auto decay = hn::Set(d, beta);
  auto largest = hn::Zero(di);
  for (std::size_t i = 0; i < kChunk; i += hn::Lanes(d)) {
    const auto old = hn::LoadU(d, residual.data() + i);
    const auto p = hn::Add(hn::Mul(decay, old), hn::LoadU(d, delta.data() + i));
    hn::StoreU(old, d, before.data() + i);
    hn::StoreU(p, d, residual.data() + i);
    largest = hn::Max(largest, magnitudes(d, p));
  }
  return hn::GetLane(hn::MaxOfLanes(di, largest)) < static_cast<std::int32_t>(kInfinityBits);
}

}  // namespace causeway::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace causeway::compression {

HWY_EXPORT(sum_of_squares);
HWY_EXPORT(all_finite);
HWY_EXPORT(add_decayed);

double sum_of_squares(ChunkView chunk, const float* upcoming) {
  return HWY_DYNAMIC_DISPATCH(sum_of_squares)(chunk, upcoming);
}

bool all_finite(ChunkView chunk) {
  return HWY_DYNAMIC_DISPATCH(all_finite)(chunk);
}

bool add_decayed(ChunkView delta, float beta, ChunkSpan residual, ChunkSpan before) {
  return HWY_DYNAMIC_DISPATCH(add_decayed)(delta, beta, residual, before);
}

}  // namespace causeway::compression
#endif  // HWY_ONCE
