// Chance without state: a word is a function of a key and a counter, so that any thread or kernel
// draws any word. Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"
// (2011). constexpr, so that device code may call the same lines.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <span>

#include "compression/base/codec.h"

namespace causeway::compression {

using PhiloxKey = std::array<std::uint32_t, 2>;
using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

constexpr std::uint32_t low_word(std::uint64_t x) {
  return static_cast<std::uint32_t>(x);
}
constexpr std::uint32_t high_word(std::uint64_t x) {
  return static_cast<std::uint32_t>(x >> 32);
}

// In [0, 1), of the word's upper 24 bits: exact in fp32.
constexpr float unit_interval(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24F;
}

// One of the two integers around x, with x as the mean if `unit` is uniform in [0, 1).
inline float round_stochastically(float x, float unit) {
  const float below = std::floor(x);
  return below + (unit < x - below ? 1.0F : 0.0F);
}

// One number in [0, 1) for each value of a chunk that begins at key.first_element. With
// e = first_element + i: word e % 4 of philox({e / 4, high half of e / 4, round, region}, seed).
inline void draw_units(const EncodeKey& key, std::span<float> units) {
  constexpr std::size_t kWords = PhiloxBlock{}.size();
  assert(key.first_element % kWords == 0);
  for (std::size_t i = 0; i < units.size(); i += kWords) {
    const std::uint64_t block = (key.first_element + i) / kWords;
    const PhiloxBlock words = philox({low_word(block), high_word(block), key.round, key.region},
                                     {low_word(key.seed), high_word(key.seed)});
    const std::size_t count = std::min(kWords, units.size() - i);
    for (std::size_t j = 0; j < count; ++j) units[i + j] = unit_interval(words[j]);
  }
}

}  // namespace causeway::compression
