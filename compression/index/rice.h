// Rice coding of k ascending positions below 4,096: the number of positions skipped before each,
// its quotient by 2^r in unary (ones, then a zero), then its r low bits. Bits fill bytes from the
// least significant up; the last byte is filled with zeros.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/base/bytes.h"
#include "compression/base/codec.h"

namespace causeway::compression {

struct Rice {
  std::size_t k;  // 1 to kChunk

  // The best for geometric gaps but for a few k, by 0.01 bits (A. Kiely, "Selecting the Golomb
  // parameter in Rice coding", 2004): 1 + floor(log2(ln(golden ratio) / -ln(1 - k / kChunk))), with
  // 1 / p - 1 / 2 for -1 / ln(1 - p).
  constexpr unsigned low_bits() const {
    constexpr std::size_t kChunkLnGolden = 1971;
    return static_cast<unsigned>(std::bit_width((kChunkLnGolden - k / 4) / k));
  }
  // If nothing is skipped; if all is.
  constexpr std::size_t bytes_min() const { return bytes_for_bits(k * (low_bits() + 1)); }
  constexpr std::size_t bytes_max() const {
    return bytes_for_bits(k * (low_bits() + 1) + ((kChunk - k) >> low_bits()));
  }

  // `out`: bytes_max() zeros. `positions`: k, strictly ascending, below kChunk. Returns the bytes
  // used.
  std::size_t encode(std::span<const std::uint16_t> positions, std::byte* out) const;

  // Untrusted bytes, at most bytes_max(). False unless they are what encode() writes for some
  // positions.
  bool decode(std::span<const std::byte> bytes, std::span<std::uint16_t> positions) const;
};

}  // namespace causeway::compression
