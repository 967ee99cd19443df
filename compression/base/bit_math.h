// Three functions of <bit>, for code that device compilers see too: those of libstdc++ call
// built-in functions that nvcc lacks for devices, and where it meets them inside a constexpr
// function, it drops the call without a word (seen with nvcc 13.0).
#pragma once

#include <cstdint>

namespace causeway::compression {

constexpr std::uint32_t set_bits(std::uint32_t bits) {
  bits -= bits >> 1 & 0x55555555;
  bits = (bits & 0x33333333) + (bits >> 2 & 0x33333333);
  bits = (bits + (bits >> 4)) & 0x0F0F0F0F;
  return bits * 0x01010101 >> 24;
}

// The place of the lowest set bit; 32 if there is none.
constexpr std::uint32_t lowest_set_bit(std::uint32_t bits) {
  return set_bits((bits & (0 - bits)) - 1);
}

// One more than the place of the highest set bit; 0 if there is none.
constexpr std::uint32_t bits_needed(std::uint64_t bits) {
  std::uint32_t count = 0;
  for (std::uint32_t step = 32; step > 0; step /= 2) {
    if (bits >> step == 0) continue;
    bits >>= step;
    count += step;
  }
  return count + (bits != 0 ? 1 : 0);
}

}  // namespace causeway::compression
