// Two bits per value: a sign and the choice between two centroids of the magnitudes
// (docs/payload.md, "Values"): with t = mean|v|, high = mean{|v| >= t}, low = mean{|v| < t}.
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

#include "compression/base/bit_math.h"
#include "compression/base/bytes.h"
#include "compression/base/scale.h"

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

// The smallest magnitude, as its bits, whose fixed_point is at least `units` (1 to 2^40 - 1).
constexpr std::uint32_t magnitude_reaching(std::uint64_t units, std::uint32_t exponent) {
  constexpr int kSignificandBits = 24;
  const auto width = static_cast<int>(bits_needed(units));
  // units as a significand of 24 bits, rounded up, times 2^(width - 24).
  const int excess = width - kSignificandBits;
  const std::uint64_t significand =
      excess > 0 ? (units + (std::uint64_t{1} << excess) - 1) >> excess : units << -excess;
  // A float with significand s and exponent field f is s * 2^(f - 150).
  const int field = width + static_cast<int>(exponent) - 40;
  if (field >= 1) {
    return (static_cast<std::uint32_t>(field - 1) << 23) + static_cast<std::uint32_t>(significand);
  }
  const int drop = 1 - field;  // a denormal: multiples of 2^-149 only
  if (drop > 32) return 1;
  return static_cast<std::uint32_t>((significand + (std::uint64_t{1} << drop) - 1) >> drop);
}

// Where values divide into low and high: high are the magnitudes whose bits are at least this.
// `total`: the sum of the `count` fixed points; `zeros`: whether there is a zero among the values.
constexpr std::uint32_t high_from(std::uint64_t total, std::uint64_t count, std::uint32_t exponent,
                                  bool zeros) {
  if (zeros) return 1;
  return magnitude_reaching((total + count - 1) / count, exponent);
}

// What the values of one class add up to, in fixed point.
struct ClassSum {
  std::uint64_t total = 0;
  std::uint64_t count = 0;
};

constexpr Centroids centroids_of(ClassSum low, ClassSum high, std::uint32_t exponent, bool zeros) {
  Centroids centroids;
  if (low.count > 0 && !zeros) centroids.low = centroid(low.total, low.count, exponent);
  if (high.count > 0) centroids.high = centroid(high.total, high.count, exponent);
  return centroids;
}

constexpr std::uint32_t two_bit_code(float x, std::uint32_t high_from) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFF;
  return (bits >= high_from ? kTwoBitHigh : 0) | (x < 0 ? kTwoBitNegative : 0);
}

constexpr float two_bit_value(std::uint32_t code, Centroids centroids) {
  const float magnitude =
      ufloat16_value((code & kTwoBitHigh) != 0 ? centroids.high : centroids.low);
  return (code & kTwoBitNegative) != 0 ? -magnitude : magnitude;
}

// What all codes say together.
struct TwoBitUse {
  bool low = false, high = false;  // chosen by a code
  bool low_negative = false;       // chosen with a sign

  // Centroids finite and in order, 0 if no code chooses them, no sign on zero.
  constexpr bool is_canonical(Centroids centroids) const {
    return centroids.high <= kUfloat16Max && centroids.low <= centroids.high &&
           high == (centroids.high != 0) && (low || centroids.low == 0) &&
           !(low_negative && centroids.low == 0);
  }
};

// Bit i of `even` to bit 2 i, bit i of `odd` to bit 2 i + 1.
constexpr std::uint64_t interleave(std::uint32_t even, std::uint32_t odd) {
  const auto spread = [](std::uint64_t x) {
    x = (x | x << 16) & 0x0000FFFF0000FFFF;
    x = (x | x << 8) & 0x00FF00FF00FF00FF;
    x = (x | x << 4) & 0x0F0F0F0F0F0F0F0F;
    x = (x | x << 2) & 0x3333333333333333;
    return (x | x << 1) & 0x5555555555555555;
  };
  return spread(even) | spread(odd) << 1;
}

// Encodes values.size() (1 to 4,096) finite values into bytes_for_bits(2 * size) bytes at `codes`,
// and writes what they decode to.
Centroids two_bit_encode(std::span<const float> values, std::span<float> decoded, std::byte* codes);

// Untrusted codes and centroids. False unless canonical: centroids finite and in order, 0 if no
// code chooses them, no sign on zero, unused bits zero.
bool two_bit_decode(Centroids centroids, const std::byte* codes, std::span<float> decoded);

}  // namespace causeway::compression
