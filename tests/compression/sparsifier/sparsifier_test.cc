// Which elements the sparsifiers keep: top-k of a chunk is topk_test.cc's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compression/codecs/make_codec.h"
#include "tests/compression/codecs/encoded.h"
#include "tests/compression/codecs/samples.h"

namespace causeway::compression {
namespace {

// Exact values, so that what is decoded is what was kept.
Floats kept(const std::string& sparsifier, const Floats& input) {
  return encode(*make_codec(sparsifier + ",value=fp32"), input).decoded;
}

TEST(Threshold, KeepsMagnitudesFromTTimesTheRootMeanSquareUp) {
  const Floats input = draw(laplace_at, 3 * kChunk);
  const double rms = std::sqrt(norm_squared(input) / static_cast<double>(input.size()));
  Floats expected = input;
  std::size_t count = 0;
  for (float& x : expected) {
    if (std::fabs(x) < 2 * rms) x = 0;
    count += x != 0 ? 1 : 0;
  }
  EXPECT_EQ(kept("threshold:t=2", input), expected);
  EXPECT_GT(count, 100U);
  EXPECT_LT(count, input.size() / 4);
}

TEST(Threshold, IncludesMagnitudesThatAreEqualToIt) {
  Floats input(kChunk, -1.0F);
  EXPECT_EQ(kept("threshold:t=1", input), input);
  EXPECT_EQ(kept("threshold:t=1.0000001", input), Floats(kChunk));
}

TEST(Threshold, AdaptsToTheScaleAndKeepsNoZeros) {
  Floats tiny = draw(gaussian_at, kChunk, 1, 1e-42);  // denormals
  const Floats result = kept("threshold:t=2", tiny);
  const auto zeros = static_cast<double>(std::count(result.begin(), result.end(), 0.0F));
  EXPECT_NEAR(1 - zeros / kChunk, 0.0455, 0.01);
}

TEST(SkipZeros, LeavesZerosOutAndOtherwiseKeepsWhatTopKDoes) {
  Floats input = draw(gaussian_at, 4 * kChunk);
  std::fill(input.begin() + kChunk, input.begin() + 3 * kChunk, 0.0F);
  for (std::size_t i = 0; i < 10; ++i) input[2 * kChunk + 300 * i] = 1;
  const Encoded with = encode(*make_codec("topk:k=64,skip-zeros=yes,index=elias-fano"), input);
  const Encoded without = encode(*make_codec("topk:k=64"), input);
  EXPECT_EQ(with.decoded, without.decoded);
  EXPECT_EQ(without.bytes.size(), 4U * 84);
  // Counts 64, 0, 10, 64 in 7 bits each; ten positions in 10 * 8 + 26 bits, ten values.
  EXPECT_EQ(with.bytes.size(), 3U + 4 + 2 * 84 + 10 + 4 + 3 + 4);
}

TEST(SkipZeros, CostsThreeBytesIfThereIsNothingToSkip) {
  const Floats input = draw(gaussian_at, 16 * kChunk);
  const Encoded with = encode(*make_codec("topk:k=64,skip-zeros=yes,index=elias-fano"), input);
  EXPECT_EQ(with.bytes.size(), 3U + 16 * 84);
}

}  // namespace
}  // namespace causeway::compression
