// Two bisections on the bits of |x|: first on their upper half over the whole chunk, then on the
// lower half over the few elements that share the boundary's upper half. 16-bit lanes count twice
// as many elements per instruction as 32-bit ones, and nothing is moved or sorted: candidates come
// out in index order.
#include "compression/select.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace causeway::compression {
namespace {

// Counts fit 16 bits, and staying in them lets the loop count in 16-bit lanes.
template <typename Key>
std::size_t count_at_least(std::span<const Key> keys, Key threshold) {
  std::uint16_t count = 0;
  for (const Key key : keys) count = static_cast<std::uint16_t>(count + (key >= threshold ? 1 : 0));
  return count;
}

// The largest threshold with at least k keys at or above it. `above`: a threshold with fewer.
template <typename Key>
Key bisect(std::span<const Key> keys, std::size_t k, std::uint32_t above) {
  std::uint32_t at = 0;
  while (above - at > 1) {
    const std::uint32_t middle = at + (above - at) / 2;
    const std::size_t count = count_at_least(keys, static_cast<Key>(middle));
    if (count == k) return static_cast<Key>(middle);
    (count > k ? at : above) = middle;
  }
  return static_cast<Key>(at);
}

// Indices of the keys at or above the threshold, ascending. Most groups hold none, and a group is
// tested at once.
std::size_t collect(std::span<const std::int16_t, kChunk> keys, std::int16_t threshold,
                    std::array<std::uint16_t, kChunk>& found) {
  constexpr std::size_t kGroup = 16;
  std::size_t count = 0;
  for (std::size_t begin = 0; begin < kChunk; begin += kGroup) {
    std::int16_t any = 0;
    for (std::size_t i = begin; i < begin + kGroup; ++i) any |= keys[i] >= threshold ? 1 : 0;
    if (any == 0) continue;
    for (std::size_t i = begin; i < begin + kGroup; ++i) {
      found[count] = static_cast<std::uint16_t>(i);
      count += keys[i] >= threshold ? 1 : 0;
    }
  }
  return count;
}

// `candidates` (ascending) share or exceed the upper half `boundary`; copies the best
// `indices.size()` of them.
void settle(ChunkView chunk, std::uint32_t boundary, std::span<const std::uint16_t> candidates,
            std::span<std::uint16_t> indices) {
  std::array<std::uint16_t, kChunk> lower;
  std::size_t on_boundary = 0;
  for (const std::uint16_t i : candidates) {
    const std::uint32_t bits = magnitude_bits(chunk[i]);
    if (bits >> 16 == boundary) lower[on_boundary++] = static_cast<std::uint16_t>(bits);
  }
  const std::span<const std::uint16_t> keys(lower.data(), on_boundary);
  const std::size_t wanted = indices.size() - (candidates.size() - on_boundary);
  const std::uint32_t threshold =
      boundary << 16 | bisect<std::uint16_t>(keys, wanted, std::uint32_t{1} << 16);
  const auto exceeds = [&](std::uint16_t i) { return magnitude_bits(chunk[i]) > threshold; };
  auto equal_left = static_cast<std::ptrdiff_t>(indices.size()) -
                    std::count_if(candidates.begin(), candidates.end(), exceeds);
  std::size_t kept = 0;
  for (const std::uint16_t i : candidates) {
    const bool equal = magnitude_bits(chunk[i]) == threshold;
    if (exceeds(i) || (equal && equal_left-- > 0)) indices[kept++] = i;
  }
  assert(kept == indices.size());
}

}  // namespace

void select_largest(ChunkView chunk, std::span<std::uint16_t> indices) {
  assert(!indices.empty() && indices.size() <= kChunk);
  // 15 bits each: the signed comparison, which every machine has in 16-bit lanes, will do.
  std::array<std::int16_t, kChunk> upper;
  for (std::size_t i = 0; i < kChunk; ++i) {
    upper[i] = static_cast<std::int16_t>(magnitude_bits(chunk[i]) >> 16);
  }
  constexpr std::uint32_t kInfinity = 0x7F80;  // its upper half: no finite element has it
  const auto boundary = bisect<std::int16_t>(upper, indices.size(), kInfinity);
  std::array<std::uint16_t, kChunk> candidates;
  const std::size_t count = collect(upper, boundary, candidates);
  if (count == indices.size()) {
    std::copy_n(candidates.begin(), count, indices.begin());
  } else {
    settle(chunk, static_cast<std::uint32_t>(boundary), std::span(candidates).first(count),
           indices);
  }
}

}  // namespace causeway::compression
