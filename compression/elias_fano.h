// Elias-Fano coding of k ascending indices below 4,096, in a size that depends on k alone
// (algorithms.md 10): the low bits of each index packed, then the high parts as a unary bitmap, in
// which index i sets bit (index >> low_bits) + i.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/bytes.h"
#include "compression/codec.h"

namespace causeway::compression {

struct EliasFano {
  std::size_t k;  // 1 to kChunk

  // floor(log2(kChunk / k)).
  constexpr unsigned low_bits() const {
    return static_cast<unsigned>(std::bit_width(kChunk / k) - 1);
  }
  constexpr std::size_t low_bytes() const { return bytes_for_bits(k * low_bits()); }
  constexpr std::size_t high_bits() const { return k + (kChunk >> low_bits()); }
  constexpr std::size_t high_bytes() const { return bytes_for_bits(high_bits()); }
  constexpr std::size_t bytes() const { return low_bytes() + high_bytes(); }

  // `out`: bytes() zeros. `indices`: k, strictly ascending, below kChunk.
  void encode(std::span<const std::uint16_t> indices, std::byte* out) const;

  // Untrusted bytes(). False unless they are what encode() writes for some indices.
  bool decode(const std::byte* bytes, std::span<std::uint16_t> indices) const;
};

}  // namespace causeway::compression
