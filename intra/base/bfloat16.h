// Rounding to bfloat16, the upper half of an fp32, and two of them in the place of one fp32: the
// same lines on CPUs and, as a job's, on GPUs.
#pragma once

#include <bit>
#include <cstdint>

namespace causeway::intra {

// Ties to even; a NaN stays one.
constexpr std::uint32_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return bits >> 16 | 0x40;
  return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

// A word has two, the first in the low half.
constexpr std::uint32_t bf16_word(float first, float second) {
  return bf16_bits(first) | bf16_bits(second) << 16;
}
constexpr float first_of_word(std::uint32_t word) {
  return std::bit_cast<float>(word << 16);
}
constexpr float second_of_word(std::uint32_t word) {
  return std::bit_cast<float>(word & 0xFFFF0000);
}

}  // namespace causeway::intra
