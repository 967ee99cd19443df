// SplitMix64 (Steele, Lea and Flood 2014), as a hash: values that depend on a key alone.
#pragma once

#include <cstdint>

namespace causeway::intra {

inline constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio

// Its finaliser: every input bit reaches every output bit; 0 stays 0.
inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace causeway::intra
