// bf16, the upper half of an fp32, for scales and centroids: it has fp32's range, so that no
// pseudo-gradient is too small or too large for it and every chunk encodes alone. Non-negative
// finite numbers only; their bit patterns are ordered as the numbers are. The functions are
// constexpr so that device code may call the same lines.
#pragma once

#include <bit>
#include <cstdint>

namespace causeway::compression {

inline constexpr std::uint16_t kBfloat16Max = 0x7F7F;  // the largest finite number

constexpr float bfloat16_value(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// The smallest bf16 that is at least `x`; kBfloat16Max if there is none.
constexpr std::uint16_t bfloat16_up(float x) {
  const std::uint32_t bits = (std::bit_cast<std::uint32_t>(x) + 0xFFFF) >> 16;
  return static_cast<std::uint16_t>(bits < kBfloat16Max ? bits : kBfloat16Max);
}

// The nearest bf16, ties to even; kBfloat16Max instead of infinity.
constexpr std::uint16_t bfloat16_nearest(float x) {
  const auto whole = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t bits = (whole + 0x7FFF + ((whole >> 16) & 1)) >> 16;
  return static_cast<std::uint16_t>(bits < kBfloat16Max ? bits : kBfloat16Max);
}

}  // namespace causeway::compression
