#include "compression/two_bit.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "compression/chunk.h"

namespace causeway::compression {
namespace {

// Where the values divide: at their mean, total / count.
struct Division {
  std::uint32_t exponent = 1;
  std::uint64_t count = 0;
  std::uint64_t total = 0;  // in fixed point
  bool zeros = false;       // high is then whatever is not zero

  bool is_high(std::uint32_t bits) const {
    if (zeros) return bits != 0;
    return fixed_point(bits, exponent) * count >= total;
  }
};

Division divide(std::span<const float> values) {
  Division division{.count = values.size()};
  for (const float x : values) {
    division.exponent = std::max(division.exponent, exponent_field(magnitude_bits(x)));
    division.zeros |= magnitude_bits(x) == 0;
  }
  for (const float x : values) {
    division.total += fixed_point(magnitude_bits(x), division.exponent);
  }
  return division;
}

float value_of(std::uint32_t code, const std::array<float, 2>& levels) {
  const float magnitude = levels[code & kTwoBitHigh];
  return (code & kTwoBitNegative) != 0 ? -magnitude : magnitude;
}

}  // namespace

Centroids two_bit_encode(std::span<const float> values, std::span<float> decoded,
                         std::byte* codes) {
  assert(!values.empty() && values.size() <= kChunk && decoded.size() == values.size());
  const Division division = divide(values);
  std::array<std::uint64_t, 2> sum{};
  std::array<std::uint64_t, 2> count{};
  for (const float x : values) {
    const std::uint32_t bits = magnitude_bits(x);
    const bool high = division.is_high(bits);
    sum[high] += fixed_point(bits, division.exponent);
    ++count[high];
  }
  Centroids centroids;
  if (count[0] > 0 && !division.zeros) {
    centroids.low = centroid(sum[0], count[0], division.exponent);
  }
  if (count[1] > 0) centroids.high = centroid(sum[1], count[1], division.exponent);

  const std::array levels{ufloat16_value(centroids.low), ufloat16_value(centroids.high)};
  BitWriter writer(codes);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t code = division.is_high(magnitude_bits(values[i])) ? kTwoBitHigh : 0;
    if (values[i] < 0) code |= kTwoBitNegative;
    writer.put(code, 2);
    decoded[i] = value_of(code, levels);
  }
  writer.finish();
  return centroids;
}

bool two_bit_decode(Centroids centroids, const std::byte* codes, std::span<float> decoded) {
  if (centroids.high > kUfloat16Max || centroids.low > centroids.high) return false;
  const std::array levels{ufloat16_value(centroids.low), ufloat16_value(centroids.high)};
  BitReader reader(codes);
  for (float& value : decoded) {
    const std::uint32_t code = reader.get(2);
    if (code != 0 && levels[code & kTwoBitHigh] == 0.0F) return false;
    value = value_of(code, levels);
  }
  return reader.rest_is_zero();
}

}  // namespace causeway::compression
