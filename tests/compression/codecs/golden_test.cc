// Encodings and what they decode to, against those of an independent program that shares nothing
// with ours but the description of the format.
#include <gtest/gtest.h>

#include <algorithm>

#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"
#include "tests/compression/codecs/encoded.h"
#include "tests/compression/codecs/samples.h"
#include "tests/compression/codecs/specs.h"
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

class Golden : public testing::TestWithParam<golden::Encoding> {};

TEST_P(Golden, EncodingIsThatOfTheIndependentGenerator) {
  // A chunk, one with 20 numbers and zeros after them, one of zeros.
  Floats input = exact_samples(3 * kChunk, 5);
  std::fill(input.begin() + kChunk + 20, input.end(), 0.0F);
  const EncodeKey key{
      .seed = 0x0123456789ABCDEF, .round = 7, .region = 3, .first_element = 5 * kChunk};
  const auto codec = make_codec(GetParam().spec);
  const Encoded result = encode(*codec, input, key);
  EXPECT_EQ(result.bytes.size(), GetParam().bytes);
  EXPECT_EQ(fnv1a(result.bytes), GetParam().fnv1a);
  Floats decoded(input.size());  // adding to zero leaves no minus zero
  codec->decode_add(result.bytes, 1.0F, decoded);
  EXPECT_EQ(fnv1a(std::as_bytes(std::span(decoded))), GetParam().decoded);
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(golden::kEncodings),
                         [](const auto& encoding) { return test_name(encoding.param.spec); });

}  // namespace
}  // namespace causeway::compression
