// Two bits per value: a sign and the choice between two centroids of the magnitudes
// (algorithms.md 9.1): with t = mean|v|, high = mean{|v| >= t}, low = mean{|v| < t}.
//
// Means are taken in fixed point under the largest exponent, 40 bits for the largest magnitude and
// lower bits dropped: integer sums do not depend on the order, so any number of threads or lanes
// gets the same bits. A zero must decode to zero (padding stays zero), so if there is a zero among
// the values, low is 0 and stands for the zeros, and high for all others.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/bytes.h"
#include "compression/ufloat16.h"

namespace causeway::compression {

struct Centroids {
  std::uint16_t low = 0, high = 0;  // ufloat16; low <= high
};

// Codes. On the wire: do not renumber.
inline constexpr std::uint32_t kTwoBitHigh = 1;      // high centroid rather than low
inline constexpr std::uint32_t kTwoBitNegative = 2;  // never on a zero

// The exponent field of a finite fp32, with denormals counted as the smallest normal exponent,
// which is what they share.
constexpr std::uint32_t exponent_field(std::uint32_t bits) {
  const std::uint32_t field = bits >> 23;
  return field == 0 ? 1 : field;
}

// |v|, given as its bits, in units of 2^(exponent - 166), rounded down; below 2^40. `exponent`: the
// largest exponent_field of all values.
constexpr std::uint64_t fixed_point(std::uint32_t bits, std::uint32_t exponent) {
  const std::uint32_t implicit_bit = bits >> 23 == 0 ? 0 : std::uint32_t{1} << 23;
  const std::uint64_t significand = (bits & 0x7FFFFF) | implicit_bit;
  const std::uint32_t shift = exponent - exponent_field(bits);
  return shift > 63 ? 0 : significand << 16 >> shift;
}

// sum / count in the units of fixed_point, as ufloat16: quotient in fp64, to fp32, to ufloat16,
// nearest-even each time; at least the smallest ufloat16, because the class holds values that are
// not zero.
constexpr std::uint16_t centroid(std::uint64_t sum, std::uint64_t count, std::uint32_t exponent) {
  const auto unit = std::bit_cast<double>((std::uint64_t{1023} + exponent - 166) << 52);
  const double mean = static_cast<double>(sum) / static_cast<double>(count) * unit;
  const std::uint16_t bits = ufloat16_nearest(static_cast<float>(mean));
  return bits == 0 ? 1 : bits;
}

// Encodes values.size() (1 to 4,096) finite values into bytes_for_bits(2 * size) bytes at `codes`,
// and writes what they decode to.
Centroids two_bit_encode(std::span<const float> values, std::span<float> decoded, std::byte* codes);

// Untrusted codes and centroids. False unless canonical: centroids finite and in order, no sign on
// zero, unused bits zero.
bool two_bit_decode(Centroids centroids, const std::byte* codes, std::span<float> decoded);

}  // namespace causeway::compression
