#include "compression/index/elias_fano.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/compression/codecs/samples.h"

namespace causeway::compression {
namespace {

using Indices = std::vector<std::uint16_t>;
using Bytes = std::vector<std::byte>;

Bytes encoded(const Indices& indices) {
  const EliasFano coder{indices.size()};
  Bytes bytes(coder.bytes());
  coder.encode(indices, bytes.data());
  return bytes;
}

// Empty if refused.
Indices decoded(const Bytes& bytes, std::size_t k) {
  Indices indices(k);
  return EliasFano{k}.decode(bytes.data(), indices) ? indices : Indices{};
}

TEST(EliasFano, HasTheSizesOfTheReference) {
  EXPECT_EQ(EliasFano{64}.low_bits, 6U);
  EXPECT_EQ(EliasFano{64}.bytes(), 64U);  // 8.0 bits per index
  EXPECT_EQ(EliasFano{128}.bytes(), 112U);
  EXPECT_EQ(EliasFano{41}.low_bits, 6U);
  EXPECT_EQ(EliasFano{41}.bytes(), 31U + 14U);
  EXPECT_EQ(EliasFano{1}.low_bits, 12U);
  EXPECT_EQ(EliasFano{4096}.low_bits, 0U);
}

TEST(EliasFano, WritesLowBitsThenAUnaryBitmap) {
  // k = 2: 11 low bits each, then 2 + 2 bits of bitmap. 5 = 0|5 sets bit 0; 2049 = 1|1 sets bit 1
  // + 1.
  EXPECT_EQ(encoded({5, 2049}),
            (Bytes{std::byte{0x05}, std::byte{0x08}, std::byte{0x00}, std::byte{0b101}}));
}

TEST(EliasFano, RoundTripsAnySetOfIndices) {
  for (const std::size_t k : {1U, 2U, 3U, 41U, 63U, 64U, 65U, 128U, 1000U, 2049U, 4095U, 4096U}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Indices indices = random_positions(k, seed);
      EXPECT_EQ(decoded(encoded(indices), k), indices) << k;
    }
  }
  Indices first(64), last(64);
  std::iota(first.begin(), first.end(), std::uint16_t{0});
  std::iota(last.begin(), last.end(), std::uint16_t{4096 - 64});
  EXPECT_EQ(decoded(encoded(first), 64), first);
  EXPECT_EQ(decoded(encoded(last), 64), last);
}

// Whatever decodes must be exactly what encode() writes: one byte string for one set, and no other
// is let in.
TEST(EliasFano, RefusesEveryChangedByteOrDecodesCanonically) {
  for (const std::size_t k : {1U, 3U, 41U, 64U}) {
    const Bytes good = encoded(random_positions(k, 9));
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (int value = 0; value < 256; ++value) {
        Bytes bytes = good;
        bytes[at] = static_cast<std::byte>(value);
        const Indices indices = decoded(bytes, k);
        if (indices.empty()) continue;
        EXPECT_EQ(encoded(indices), bytes) << k << " " << at << " " << value;
      }
    }
  }
}

TEST(EliasFano, RefusesRepeatedAndDescendingIndices) {
  Bytes bytes = encoded({100, 101});  // both in bucket 0
  bytes[0] = std::byte{101};
  EXPECT_TRUE(decoded(bytes, 2).empty());  // 101, 101
  bytes[0] = std::byte{102};
  EXPECT_TRUE(decoded(bytes, 2).empty());  // 102, 101
}

TEST(EliasFano, RefusesTooFewTooManyAndTooLarge) {
  Bytes bytes = encoded({5, 2049});
  bytes[3] = std::byte{0b001};
  EXPECT_TRUE(decoded(bytes, 2).empty());
  bytes[3] = std::byte{0b111};
  EXPECT_TRUE(decoded(bytes, 2).empty());
  bytes[3] = std::byte{0b1001};  // bucket 2 of 2
  EXPECT_TRUE(decoded(bytes, 2).empty());
  bytes[3] = std::byte{0b10101};  // beyond the bitmap
  EXPECT_TRUE(decoded(bytes, 2).empty());
}

}  // namespace
}  // namespace causeway::compression
