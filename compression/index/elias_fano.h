// Elias-Fano coding of k ascending indices below 4,096, in a size that depends on k alone
// (docs/payload.md, "Positions"): the low bits of each index packed, then the high parts as a
// unary bitmap, in which index i sets bit (index >> low_bits) + i.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/base/bit_math.h"
#include "compression/base/bytes.h"
#include "compression/base/codec.h"

namespace causeway::compression {

struct EliasFano {
  std::size_t k;                                    // 1 to kChunk
  unsigned low_bits = bits_needed(kChunk / k) - 1;  // of each index: floor(log2(kChunk / k))

  constexpr std::size_t low_bytes() const { return bytes_for_bits(k * low_bits); }
  constexpr std::size_t high_bits() const { return k + (kChunk >> low_bits); }
  constexpr std::size_t high_bytes() const { return bytes_for_bits(high_bits()); }
  constexpr std::size_t bytes() const { return low_bytes() + high_bytes(); }

  // Where index number i sets its bit in the high part, and back.
  constexpr std::size_t high_position(std::size_t index, std::size_t i) const {
    return (index >> low_bits) + i;
  }
  constexpr std::size_t index_at(std::size_t position, std::size_t i, std::uint32_t low) const {
    return (position - i) << low_bits | low;
  }
  // Byte b of the low part.
  constexpr std::uint8_t low_byte(const std::uint16_t* indices, std::uint32_t b) const {
    return packed_byte(b, low_bits, static_cast<std::uint32_t>(k), [&](std::uint32_t i) {
      return indices[i] & ((std::uint32_t{1} << low_bits) - 1);
    });
  }

  // `out`: bytes() zeros. `indices`: k, strictly ascending, below kChunk.
  void encode(std::span<const std::uint16_t> indices, std::byte* out) const;

  // Untrusted bytes(). False unless they are what encode() writes for some indices.
  bool decode(const std::byte* bytes, std::span<std::uint16_t> indices) const;
};

}  // namespace causeway::compression
