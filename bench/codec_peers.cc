#include "bench/codec_peers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

namespace causeway::bench {
namespace {

std::uint32_t magnitude(float x) {
  return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFF;
}

}  // namespace

std::uint64_t read_all(std::span<const float> values) {
  constexpr std::size_t kAtOnce = 32;
  assert(values.size() % kAtOnce == 0);
  std::array<std::uint32_t, kAtOnce> seen{};
  for (std::size_t i = 0; i < values.size(); i += kAtOnce) {
    std::array<std::uint32_t, kAtOnce> bits;
    std::memcpy(bits.data(), values.data() + i, sizeof bits);
    for (std::size_t j = 0; j < kAtOnce; ++j) seen[j] |= bits[j];
  }
  std::uint64_t all = 0;
  for (const std::uint32_t bits : seen) all |= bits;
  return all;
}

std::uint32_t kth_magnitude(std::span<const float> values, std::size_t k) {
  std::array<std::uint32_t, 4096> bits;
  assert(values.size() <= bits.size());
  std::transform(values.begin(), values.end(), bits.begin(), magnitude);
  const auto kth = bits.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(bits.begin(), kth, bits.begin() + static_cast<std::ptrdiff_t>(values.size()),
                   std::greater<>());
  return *kth;
}

std::uint32_t kth_magnitude_of_all(std::span<const float> values, std::size_t k) {
  std::vector<std::uint32_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(), magnitude);
  const auto kth = bits.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(bits.begin(), kth, bits.end(), std::greater<>());
  return *kth;
}

void scalar_int8_feedback(std::span<const float> delta, float beta, std::span<float> residual,
                          std::span<std::int8_t> codes, std::span<float> scales) {
  constexpr std::size_t kBlock = 128;
  for (std::size_t begin = 0; begin < delta.size(); begin += kBlock) {
    float largest = 0;
    for (std::size_t i = begin; i < begin + kBlock; ++i) {
      residual[i] = beta * residual[i] + delta[i];
      largest = std::max(largest, std::fabs(residual[i]));
    }
    const float scale = largest == 0 ? 1 : largest / 127;
    scales[begin / kBlock] = scale;
    for (std::size_t i = begin; i < begin + kBlock; ++i) {
      const long code = std::lrint(residual[i] / scale);
      codes[i] = static_cast<std::int8_t>(code);
      residual[i] -= scale * static_cast<float>(code);
    }
  }
}

}  // namespace causeway::bench
