// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): 128 random
// bits as a pure function of a 128-bit counter and a 64-bit key, so that every element can draw
// alone.
#pragma once

#include <array>
#include <cstdint>

namespace causeway::intra {

inline constexpr std::uint32_t kPhiloxMultiplier0 = 0xD2511F53, kPhiloxMultiplier1 = 0xCD9E8D57;
inline constexpr std::uint32_t kPhiloxWeyl0 = 0x9E3779B9, kPhiloxWeyl1 = 0xBB67AE85;
inline constexpr int kPhiloxRounds = 10;

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

constexpr PhiloxCounter philox(PhiloxCounter x, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const auto p0 = std::uint64_t{kPhiloxMultiplier0} * x[0];
    const auto p1 = std::uint64_t{kPhiloxMultiplier1} * x[2];
    x = {static_cast<std::uint32_t>(p1 >> 32) ^ x[1] ^ key[0], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ x[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += kPhiloxWeyl0;
    key[1] += kPhiloxWeyl1;
  }
  return x;
}

// The finaliser of SplitMix64: a bijection that spreads every input bit.
inline std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

inline PhiloxKey philox_key(std::uint64_t bits) {
  return {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
}

}  // namespace causeway::intra
