#include "wan-sim/base/chance.h"

#include <cmath>
#include <numbers>

namespace causeway::wan_sim {
namespace {

// The output function of splitmix64 (Steele, Lea and Flood, 2014).
std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return scramble(scramble(a) + b);
}

// FNV-1a; std::hash may differ between standard libraries, and a seed must repeat everywhere.
std::uint64_t key_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

double uniform(std::uint64_t key) {
  return (static_cast<double>(scramble(key) >> 11) + 0.5) * 0x1p-53;
}

// Box and Muller (1958), the cosine half.
double normal(std::uint64_t key) {
  const double radius = std::sqrt(-2.0 * std::log(uniform(mix(key, 1))));
  return radius * std::cos(2.0 * std::numbers::pi * uniform(mix(key, 2)));
}

double half_normal(std::uint64_t key) {
  return std::abs(normal(key));
}

double exponential(std::uint64_t key) {
  return -std::log(uniform(key));
}

}  // namespace causeway::wan_sim
