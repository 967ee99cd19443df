// Scales of blocks whose codes stand for multiples of them, up to `top` times the scale. As
// ufloat16. constexpr, so that device code may call the same lines.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "compression/base/bytes.h"
#include "compression/base/chunk.h"

namespace causeway::compression {

// Scales and centroids: 16-bit floats without a sign, the upper half of an fp32 after its sign bit.
// With fp32's eight exponent bits no pseudo-gradient is too small or too large, so every chunk
// encodes alone; the freed sign bit makes eight fraction bits, one more than bf16 has, which is
// what it takes to round a scale to nearest without clipping the block's largest value.
//
// Non-negative finite numbers only; bit patterns are ordered as the numbers are. constexpr, so that
// device code may call the same lines.
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

// The largest scale whose `top`-fold is finite. No block of finite numbers needs more, and a
// decoder refuses more, so that every decoded value is finite.
constexpr std::uint16_t scale_max(float top) {
  const float largest = std::numeric_limits<float>::max() / top;
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(largest) >> 15);
}

// The scale for values up to `max`, 0 only for 0. The nearest to max / top; the next larger one if
// that falls short and is one of the coarse denormals, or if nothing may be clipped at all
// (`cover`: stochastic rounding is unbiased only then).
constexpr std::uint16_t scale_for(float max, float top, bool cover) {
  if (max == 0.0F) return 0;
  constexpr std::uint16_t kSmallestNormal = 0x100;
  const std::uint16_t limit = scale_max(top);
  const std::uint16_t scale = std::clamp<std::uint16_t>(ufloat16_nearest(max / top), 1, limit);
  const bool is_short = ufloat16_value(scale) * top < max;
  const bool next = is_short && scale < limit && (cover || scale < kSmallestNormal);
  return static_cast<std::uint16_t>(scale + (next ? 1 : 0));
}

// 1 for a block of zeros, so that its quotients are zeros too.
constexpr float divisor_of(std::uint16_t scale) {
  return scale == 0 ? 1.0F : ufloat16_value(scale);
}

inline float largest_magnitude(std::span<const float> block) {
  std::int32_t largest = 0;  // signed, because every machine compares signed lanes
  for (const float x : block) {
    largest = std::max(largest, static_cast<std::int32_t>(magnitude_bits(x)));
  }
  return std::bit_cast<float>(largest);
}

// Bytes of the scales of `count` values, one per `block` of them.
constexpr std::size_t scale_bytes(std::size_t count, std::size_t block) {
  return (count + block - 1) / block * sizeof(std::uint16_t);
}

// The sum of squares of `count` values that are all `top` times the scale of their block. Scale i
// goes to sum i mod 4, so that no addition waits for the one before.
inline double norm_squared_of_scales(const std::byte* scales, std::size_t count, std::size_t block,
                                     double top) {
  const auto square = [scales](std::size_t i) {
    const double scale = ufloat16_value(load<std::uint16_t>(scales + i * sizeof(std::uint16_t)));
    return scale * scale;
  };
  const std::size_t whole = count / block;
  double sums[4] = {0, 0, 0, 0};
  std::size_t i = 0;
  for (; i + 4 <= whole; i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += square(i + lane);
  }
  for (; i < whole; ++i) sums[i % 4] += square(i);
  double sum = static_cast<double>(block) * ((sums[0] + sums[1]) + (sums[2] + sums[3]));
  if (count % block != 0) sum += static_cast<double>(count % block) * square(whole);
  return top * top * sum;
}

}  // namespace causeway::compression
