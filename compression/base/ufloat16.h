// Scales and centroids: 16-bit floats without a sign, the upper half of an fp32 after its sign bit.
// With fp32's eight exponent bits no pseudo-gradient is too small or too large, so every chunk
// encodes alone; the freed sign bit makes eight fraction bits, one more than bf16 has, which is
// what it takes to round a scale to nearest without clipping the block's largest value.
//
// Non-negative finite numbers only; bit patterns are ordered as the numbers are. constexpr, so that
// device code may call the same lines.
#pragma once

#include <bit>
#include <cstdint>

namespace causeway::compression {

inline constexpr std::uint16_t kUfloat16Max = 0xFEFF;  // the largest finite number

constexpr float ufloat16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 15);
}

// The nearest, ties to even; kUfloat16Max instead of infinity.
constexpr std::uint16_t ufloat16_nearest(float x) {
  const auto whole = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t bits = (whole + 0x3FFF + ((whole >> 15) & 1)) >> 15;
  return static_cast<std::uint16_t>(bits < kUfloat16Max ? bits : kUfloat16Max);
}

}  // namespace causeway::compression
