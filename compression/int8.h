// Symmetric int8 with one bf16 scale per block: the scalar rules. constexpr, so that device code
// may call the same lines.
#pragma once

#include <bit>
#include <cstdint>

#include "compression/bfloat16.h"

namespace causeway::compression {

inline constexpr std::int32_t kInt8Max = 127;  // -128 is not used: the code is symmetric
// The largest scale whose 127-fold is still finite. Every decoded value is therefore finite.
inline constexpr std::uint16_t kInt8ScaleMax = 0x7C01;

// The scale of a block whose largest magnitude is `max`: max / 127, rounded up so that nothing is
// clipped. Zero only for a zero block.
constexpr std::uint16_t int8_scale(float max) {
  if (max == 0.0F) return 0;
  const std::uint16_t scale = bfloat16_up(max / kInt8Max);
  if (scale == 0) return 1;
  return scale < kInt8ScaleMax ? scale : kInt8ScaleMax;
}

// x / scale to the nearest integer, ties to even, for a result within +-2^22: adding 1.5 * 2^23
// leaves the integer in the low bits of the sum. Every vector unit has these operations, and all
// round alike.
constexpr std::int32_t round_quotient(float x, float scale) {
  constexpr float kShift = 12582912.0F;
  return std::bit_cast<std::int32_t>(x / scale + kShift) - std::bit_cast<std::int32_t>(kShift);
}

}  // namespace causeway::compression
