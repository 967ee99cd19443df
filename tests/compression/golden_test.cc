// Encodings against those of an independent program that shares nothing with ours but the
// description of the format.
#include <gtest/gtest.h>

#include <algorithm>

#include "compression/codec.h"
#include "tests/compression/samples.h"
#include "tests/golden/codec_golden.h"

namespace causeway::compression {
namespace {

std::uint64_t fnv1a(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const std::byte byte : bytes) {
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001B3;
  }
  return hash;
}

TEST(Golden, EncodingsAreThoseOfTheIndependentGenerator) {
  Floats input = exact_samples(2 * kChunk, 5);
  std::fill(input.begin() + kChunk + 20, input.end(), 0.0F);
  for (const golden::Encoding& expected : golden::kEncodings) {
    std::vector<std::byte> bytes;
    Floats decoded(input.size());
    make_codec(expected.spec)->encode(input, decoded, bytes);
    EXPECT_EQ(bytes.size(), expected.bytes) << expected.spec;
    EXPECT_EQ(fnv1a(bytes), expected.fnv1a) << expected.spec;
  }
}

}  // namespace
}  // namespace causeway::compression
