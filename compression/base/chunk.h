// What every codec does with one chunk of 4,096 floats.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "compression/base/codec.h"

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

// Sum of squares in fp64, in one fixed tree of 256 sums: sum 32 s + l (s < 8, l < 32) adds the
// squares of elements 512 s + 32 r + l for r = 0, 1, ... 15, then the sums are added pairwise by
// halves (128, 64, ... 1). Squares of floats are exact in fp64, so only the additions round. The
// tree is one that a CPU follows in memory order with its sums in registers, and a GPU with a
// thread per sum.
double sum_of_squares(ChunkView chunk);

bool all_finite(ChunkView chunk);

// One chunk of error feedback: p = beta * residual + delta takes the residual's place, and then
// what of p is not encoded does.
struct FeedbackChunk {
  ChunkView delta;
  float beta;
  ChunkSpan residual;
};

// The first half of that, up to p. Its sum of squares, or nothing if p is not finite.
std::optional<double> add_decayed(const FeedbackChunk& chunk);

// All of it, with encode(p) to encode and to leave what is not encoded.
template <typename Encode>
std::optional<EncodeStats> encode_by_parts(const FeedbackChunk& chunk, const Encode& encode) {
  const std::optional<double> norm = add_decayed(chunk);
  if (!norm) return {};
  encode(chunk.residual);
  return EncodeStats{*norm, sum_of_squares(chunk.residual)};
}

}  // namespace causeway::compression
