// Exact top-k of a chunk by magnitude. Of equal magnitudes the lower index wins, zeros included, so
// that the result is one set whatever computes it.
//
// Magnitudes are compared as their bits (chunk.h), and thresholds on them are found by bisection:
// how a threshold's elements are counted is the machine's affair, the rest is here, constexpr, so
// that device code calls the same lines.
#pragma once

#include <cstdint>
#include <span>

#include "compression/base/chunk.h"

namespace causeway::compression {

// A threshold that at least `least` elements reach: one that at most `most` reach if bisection
// meets one, else the largest there is. at_least(t) counts the magnitudes >= t, and
// at_least(low) >= least > at_least(high).
template <typename AtLeast>
constexpr std::uint32_t bisect(std::uint32_t low, std::uint32_t high, std::uint32_t least,
                               std::uint32_t most, const AtLeast& at_least) {
  std::uint32_t reached = at_least(low);
  while (reached > most && high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    const std::uint32_t count = at_least(middle);
    if (count < least) {
      high = middle;
    } else {
      low = middle;
      reached = count;
    }
  }
  return low;
}

// What divides the k largest from the rest: kept are the magnitudes above the threshold and, in
// index order, the first `ties` of those that are equal to it.
struct Cut {
  std::uint32_t threshold = 0;
  std::uint32_t ties = 0;

  // Of the equal ones among the next 64 elements in index order, those that are kept.
  constexpr std::uint64_t take_ties(std::uint64_t equal) {
    std::uint64_t taken = 0;
    for (; ties > 0 && equal != 0; --ties, equal &= equal - 1) taken |= equal & (0 - equal);
    return taken;
  }
};

// Arguments as for bisect().
template <typename AtLeast>
constexpr Cut cut_at(std::uint32_t low, std::uint32_t high, std::uint32_t k,
                     const AtLeast& at_least) {
  const std::uint32_t threshold = bisect(low, high, k, k, at_least);
  return {threshold, k - at_least(threshold + 1)};
}

// The indices.size() (1 to kChunk) largest magnitudes of a finite chunk, ascending.
void select_topk(ChunkView chunk, std::span<std::uint16_t> indices);

}  // namespace causeway::compression
