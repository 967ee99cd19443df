// Conversions to 16-bit floats, nearest-even, minus zero becoming zero: the scalar rules, constexpr
// so that device code may call the same lines.
#pragma once

#include <bit>
#include <cstdint>

namespace causeway::compression {

inline constexpr std::uint16_t kSign16 = 0x8000;

// Without a branch, which would keep loops from being vectorised.
constexpr std::uint32_t select(bool condition, std::uint32_t yes, std::uint32_t no) {
  const std::uint32_t mask = condition ? ~std::uint32_t{0} : 0;
  return (yes & mask) | (no & ~mask);
}

constexpr std::uint16_t with_sign16(std::uint32_t magnitude, float sign_of) {
  const std::uint32_t sign = std::bit_cast<std::uint32_t>(sign_of) >> 16 & kSign16;
  return static_cast<std::uint16_t>(select(magnitude == 0, 0, magnitude | sign));
}

// bf16: the upper half of an fp32. The largest finite number instead of infinity.
inline constexpr std::uint32_t kBf16Max = 0x7F7F;

constexpr std::uint16_t bf16_nearest(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFF;
  const std::uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  return with_sign16(rounded < kBf16Max ? rounded : kBf16Max, x);
}
constexpr float bf16_value(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// fp16 of magnitudes up to 2^15, none above `largest`.
inline constexpr std::uint32_t kFp16Two14 = 0x7400;  // 2^14
inline constexpr std::uint32_t kFp16Two15 = 0x7800;  // 2^15

constexpr std::uint16_t fp16_nearest(float x, std::uint32_t largest) {
  constexpr std::uint32_t kSmallestNormal = 0x38800000;  // 2^-14
  constexpr std::uint32_t kRebias = 0x38000000;          // (127 - 15) << 23
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFF;
  const std::uint32_t normal = (bits - kRebias + 0xFFF + (bits >> 13 & 1)) >> 13;
  // Subnormals are multiples of 2^-24, the last place of a float from 0.5 to 1.
  const float shifted = std::bit_cast<float>(bits) + 0.5F;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F);
  const std::uint32_t rounded = select(bits >= kSmallestNormal, normal, subnormal);
  return with_sign16(rounded < largest ? rounded : largest, x);
}
constexpr float fp16_value(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7FFFU;
  const std::uint32_t normal = (magnitude << 13) + 0x38000000;
  const float subnormal = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F;
  const std::uint32_t value =
      select(magnitude < 0x400, std::bit_cast<std::uint32_t>(subnormal), normal);
  return std::bit_cast<float>(value | (std::uint32_t{bits} & kSign16) << 16);
}

// fp16 holds 40 binades, a pseudo-gradient may lie outside: a chunk is multiplied by a power of two
// that takes its largest magnitude to between 2^14 and 2^15. On the wire as a byte: 0 for all
// zeros, else this; 1 for anything below 2^-110, where fp16's smallest step is fp32's smallest
// number.
inline constexpr std::uint32_t kFp16ExponentMax = 254 - 15;

constexpr std::uint32_t fp16_exponent(float largest) {
  const std::uint32_t field = std::bit_cast<std::uint32_t>(largest) >> 23;
  if (largest == 0.0F) return 0;
  return field < 16 ? 1 : field - 15;
}
// The largest magnitude in use under an exponent: what rounds to 2^15 stays below it where 2^15
// would be infinity.
constexpr std::uint32_t fp16_largest(std::uint32_t exponent) {
  if (exponent == 0) return 0;
  return exponent == kFp16ExponentMax ? kFp16Two15 - 1 : kFp16Two15;
}

// What numbers are divided by before, and multiplied by after: 2^(exponent - 126). `exponent`: 1 to
// kFp16ExponentMax.
constexpr float fp16_unit(std::uint32_t exponent) {
  return std::bit_cast<float>((exponent + 1) << 23);
}

}  // namespace causeway::compression
