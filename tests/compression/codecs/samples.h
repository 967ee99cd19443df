// Test inputs: counter-based, so that each is the same on every machine and in every order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

namespace causeway::compression {

using Floats = std::vector<float>;

inline constexpr float kLargest = std::numeric_limits<float>::max();
inline constexpr float kSmallest = std::numeric_limits<float>::denorm_min();  // above 0

// SplitMix64 of a counter.
inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Uniform in (0, 1). `draw` separates the numbers of one sample.
inline double uniform(std::uint64_t seed, std::uint64_t index, std::uint64_t draw = 0) {
  return (static_cast<double>(mix(mix(seed * 16 + draw) ^ index) >> 11) + 0.5) * 0x1p-53;
}

inline double gaussian_at(std::uint64_t seed, std::uint64_t i) {
  return std::sqrt(-2 * std::log(uniform(seed, i, 0))) *
         std::cos(2 * std::numbers::pi * uniform(seed, i, 1));
}

inline double laplace_at(std::uint64_t seed, std::uint64_t i) {
  const double magnitude = -std::log(uniform(seed, i, 0));
  return uniform(seed, i, 1) < 0.5 ? -magnitude : magnitude;
}

// With four degrees of freedom.
inline double student_at(std::uint64_t seed, std::uint64_t i) {
  const double chi_squared = -2 * std::log(uniform(seed, i, 2) * uniform(seed, i, 3));
  return gaussian_at(seed, i) / std::sqrt(chi_squared / 4);
}

template <typename Distribution>
Floats draw(Distribution at, std::size_t count, std::uint64_t seed = 1, double scale = 1) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(scale * at(seed, i));
  return values;
}

// Integers below 2^23 over 2^0 ... 2^19: exact in fp32 and easy to make in any language
// (tests/golden/make_codec_golden.py).
inline Floats exact_samples(std::size_t count, std::uint64_t seed) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = mix(mix(seed) ^ i);
    const auto integer = static_cast<double>(bits >> 41) - 0x1p22;
    values[i] = static_cast<float>(std::ldexp(integer, -static_cast<int>(bits % 20)));
  }
  return values;
}

// `count` of a chunk's 4,096 positions, ascending.
inline std::vector<std::uint16_t> random_positions(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint16_t> all(4096);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  for (std::size_t i = 0; i < count; ++i) {
    std::swap(all[i], all[i + mix(seed << 32 | i) % (all.size() - i)]);
  }
  all.resize(count);
  std::sort(all.begin(), all.end());
  return all;
}

inline double norm_squared(const Floats& values) {
  double sum = 0;
  for (const float x : values) sum += double{x} * x;
  return sum;
}

}  // namespace causeway::compression
