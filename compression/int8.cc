#include "compression/int8.h"

#include <algorithm>

#include "compression/chunk.h"

namespace causeway::compression {
namespace {

float largest_magnitude(std::span<const float> block) {
  std::int32_t largest = 0;  // signed, because every machine compares signed lanes
  for (const float x : block) {
    largest = std::max(largest, static_cast<std::int32_t>(magnitude_bits(x)));
  }
  return std::bit_cast<float>(largest);
}

bool is_canonical(std::uint16_t scale_bits, std::span<const std::byte> codes) {
  std::uint8_t unused_code = 0;  // flags as wide as the codes, so that the loop vectorises
  std::uint8_t any = 0;
  for (const std::byte code : codes) {
    unused_code |= code == std::byte{0x80} ? 1 : 0;
    any |= std::to_integer<std::uint8_t>(code);
  }
  return scale_bits <= kInt8ScaleMax && unused_code == 0 && (scale_bits != 0 || any == 0);
}

}  // namespace

std::uint16_t int8_encode(std::span<const float> block, std::span<float> decoded,
                          std::byte* codes) {
  const std::uint16_t scale_bits = int8_scale(largest_magnitude(block));
  const float scale = ufloat16_value(scale_bits);
  const float divisor = scale_bits == 0 ? 1.0F : scale;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const std::int32_t code = round_quotient(block[i], divisor);
    codes[i] = static_cast<std::byte>(code);
    decoded[i] = scale * static_cast<float>(code);
  }
  return scale_bits;
}

bool int8_decode_add(std::uint16_t scale_bits, const std::byte* codes, float weight,
                     std::span<float> accumulator) {
  if (!is_canonical(scale_bits, {codes, accumulator.size()})) return false;
  const float scale = ufloat16_value(scale_bits);
  for (std::size_t i = 0; i < accumulator.size(); ++i) {
    const auto code = static_cast<float>(static_cast<std::int8_t>(codes[i]));
    accumulator[i] += weight * (scale * code);
  }
  return true;
}

}  // namespace causeway::compression
