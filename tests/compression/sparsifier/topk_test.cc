#include "compression/sparsifier/topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/compression/codecs/samples.h"

namespace causeway::compression {
namespace {

using Indices = std::vector<std::uint16_t>;

Indices selected(const Floats& chunk, std::size_t k) {
  Indices indices(k);
  select_topk(ChunkView(chunk), indices);
  return indices;
}

// The definition: sort by magnitude, then by index; keep k; put them in order.
Indices by_sorting(const Floats& chunk, std::size_t k) {
  Indices order(kChunk);
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::uint16_t a, std::uint16_t b) {
    return std::fabs(chunk[a]) > std::fabs(chunk[b]);
  });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

constexpr std::size_t kKeeps[] = {1, 2, 3, 41, 64, 128, 1000, 4095, 4096};

TEST(TopK, KeepsLargestMagnitudes) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const Floats chunk = draw(laplace_at, kChunk, seed);
    for (const std::size_t k : kKeeps) EXPECT_EQ(selected(chunk, k), by_sorting(chunk, k)) << k;
  }
}

TEST(TopK, LowerIndexWinsTies) {
  for (std::uint64_t levels = 1; levels <= 40; levels += 3) {
    Floats chunk(kChunk);
    for (std::size_t i = 0; i < kChunk; ++i) {
      const std::uint64_t bits = mix(levels << 32 | i);
      chunk[i] = static_cast<float>(bits % levels) * ((bits & 1024) != 0 ? 1.0F : -1.0F);
    }
    for (const std::size_t k : kKeeps) EXPECT_EQ(selected(chunk, k), by_sorting(chunk, k)) << k;
  }
}

// All magnitudes share their upper 16 bits, so that only the lower halves decide.
TEST(TopK, TellsApartMagnitudesThatDifferInTheLastBitsAlone) {
  for (const std::uint64_t spread : {2U, 100U, 65536U}) {
    Floats chunk(kChunk);
    for (std::size_t i = 0; i < kChunk; ++i) {
      chunk[i] = std::bit_cast<float>(0x3F800000U + static_cast<std::uint32_t>(mix(i) % spread));
    }
    for (const std::size_t k : kKeeps) EXPECT_EQ(selected(chunk, k), by_sorting(chunk, k)) << k;
  }
}

TEST(TopK, TakesTheFirstIndicesOfAZeroChunk) {
  Floats chunk(kChunk);
  chunk[7] = -0.0F;
  Indices first(64);
  std::iota(first.begin(), first.end(), std::uint16_t{0});
  EXPECT_EQ(selected(chunk, 64), first);
}

TEST(TopK, WorksAtTheEndsOfTheRange) {
  Floats chunk(kChunk, std::numeric_limits<float>::denorm_min());
  chunk[4000] = -std::numeric_limits<float>::max();
  chunk[4001] = 2 * std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(selected(chunk, 3), (Indices{0, 4000, 4001}));
}

}  // namespace
}  // namespace causeway::compression
