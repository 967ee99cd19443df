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

// Sum of squares in fp64, in one fixed tree: lane j of 256 adds the squares of elements j, j + 256,
// ... in order, then lanes are added pairwise by halves (128, 64, ... 1). Squares of floats are
// exact in fp64, so only the additions round.
double sum_of_squares(ChunkView chunk);

bool all_finite(ChunkView chunk);

}  // namespace causeway::compression
