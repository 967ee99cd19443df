// Symmetric int8 with one 16-bit scale per block: the scalar rules, constexpr so that device code
// may call the same lines, and a chunk by them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "compression/base/chunk.h"
#include "compression/base/scale.h"

namespace causeway::compression {

inline constexpr std::int32_t kInt8Max = 127;  // -128 is not used: the code is symmetric
// The largest scale whose 127-fold is finite. No block of finite numbers needs more, and a decoder
// refuses more, so that every decoded value is finite.
inline constexpr std::uint16_t kInt8ScaleMax = 0xF802;

// x / scale to the nearest integer, ties to even, for a result within +-2^22: adding 1.5 * 2^23
// leaves the integer in the low bits of the sum. Every vector unit has these operations, and all
// round alike.
inline constexpr float kRoundingShift = 12582912.0F;
constexpr std::int32_t round_quotient(float x, float scale) {
  return std::bit_cast<std::int32_t>(x / scale + kRoundingShift) -
         std::bit_cast<std::int32_t>(kRoundingShift);
}

// The scale of a block whose largest magnitude is `max`: the nearest to max / 127, which puts max
// at 127 +- 0.25 and so clips nothing. Zero only for a zero block. Among the coarse denormal scales
// the nearest may be too small: then the next.
constexpr std::uint16_t int8_scale(float max) {
  if (max == 0.0F) return 0;
  const std::uint16_t nearest = ufloat16_nearest(max / kInt8Max);
  if (nearest == 0) return 1;
  const bool clips = round_quotient(max, ufloat16_value(nearest)) > kInt8Max;
  return static_cast<std::uint16_t>(nearest + (clips ? 1 : 0));
}

// Encodes finite values, at most kChunk, in blocks (the last may be shorter): one scale per block,
// two bytes each, to `scales`, and one byte per value to `codes`. `decoded` gets what they decode
// to; it may be `values`.
void int8_encode(std::span<const float> values, std::size_t block, std::span<float> decoded,
                 std::byte* scales, std::byte* codes);
// The same, but leaves in `values` what the codes do not hold: each value minus its decoded value.
void int8_encode_rest(std::span<float> values, std::size_t block, std::byte* scales,
                      std::byte* codes);

// A chunk with error feedback, in blocks of which there are whole ones in every 32 and in every 512
// elements, fused into one pass. Nothing if p is not finite; the bytes are unspecified then.
constexpr bool int8_feedback_takes(std::size_t block) {
  return block % 32 == 0 && 512 % block == 0;
}
std::optional<EncodeStats> int8_encode_feedback(const FeedbackChunk& chunk, std::size_t block,
                                                std::byte* scales, std::byte* codes);

// accumulator += weight * value, for each. Untrusted scales and codes: false unless canonical, with
// nothing added from the first block on that is not.
bool int8_decode_add(const std::byte* scales, const std::byte* codes, std::size_t block,
                     float weight, std::span<float> accumulator);

}  // namespace causeway::compression
