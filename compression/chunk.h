// What every codec does with one chunk of 4,096 floats.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/codec.h"

namespace causeway::compression {

using ChunkView = std::span<const float, kChunk>;
using ChunkSpan = std::span<float, kChunk>;

// The bits of |x|, which are ordered as the magnitudes are.
constexpr std::uint32_t magnitude_bits(float x) {
  return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFF;
}

// Those of infinity: above all finite magnitudes, below all NaNs.
inline constexpr std::uint32_t kInfinityBits = 0x7F800000;

constexpr bool is_finite(float x) {
  return magnitude_bits(x) < kInfinityBits;
}

// Sum of squares in fp64, in one fixed tree: lane j of 256 adds the squares of elements j, j + 256,
// ... in order, then lanes are added pairwise by halves (128, 64, ... 1). Squares of floats are
// exact in fp64, so only the additions round.
// Meanwhile the chunk at `upcoming`, if any, is fetched into the cache.
double sum_of_squares(ChunkView chunk, const float* upcoming = nullptr);

bool all_finite(ChunkView chunk);

// p = beta * residual + delta, in place of the residual; `before` gets what it was. True if every p
// is finite.
bool add_decayed(ChunkView delta, float beta, ChunkSpan residual, ChunkSpan before);

}  // namespace causeway::compression
