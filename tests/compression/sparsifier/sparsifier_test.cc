// Which elements the sparsifiers keep: top-k of a chunk is select_test.cc's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compression/codecs/make_codec.h"
#include "tests/compression/codecs/encoded.h"
#include "tests/compression/codecs/samples.h"

namespace causeway::compression {
namespace {

// Exact values, so that what is decoded is what was kept.
Floats kept(const std::string& sparsifier, const Floats& input) {
  return encode(*make_codec(sparsifier + ",value=fp32"), input).decoded;
}

// The definition: sort by magnitude, then by index; keep `count`.
Floats by_sorting(const Floats& input, std::size_t count) {
  std::vector<std::size_t> order(input.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::fabs(input[a]) > std::fabs(input[b]);
  });
  Floats result(input.size());
  for (std::size_t i = 0; i < count; ++i) result[order[i]] = input[order[i]];
  return result;
}

TEST(GlobalTopK, KeepsTheLargestOfTheSegmentWhereverTheyAre) {
  Floats input = draw(student_at, 3 * kChunk);
  for (std::size_t i = 0; i < kChunk; ++i) input[i] *= 0.01F;
  for (const double density : {0.0001, 0.01, 0.3, 1.0}) {
    const auto count = static_cast<std::size_t>(density * static_cast<double>(input.size()));
    EXPECT_EQ(kept("topk-global:density=" + std::to_string(density), input),
              by_sorting(input, count));
  }
}

TEST(GlobalTopK, OfEqualMagnitudesKeepsTheLowerIndex) {
  Floats input = draw(gaussian_at, 4 * kChunk);
  for (float& x : input) x = std::round(3 * x);  // a few magnitudes, each many times
  for (const double density : {0.0625, 0.125, 0.5}) {
    const auto count = static_cast<std::size_t>(density * static_cast<double>(input.size()));
    EXPECT_EQ(kept("topk-global:density=" + std::to_string(density), input),
              by_sorting(input, count));
  }
  const Floats equal(2 * kChunk, -2.0F);
  const Floats result = kept("topk-global:density=0.75", equal);
  EXPECT_EQ(std::count(result.begin(), result.begin() + 3 * kChunk / 2, -2.0F), 3 * kChunk / 2);
}

TEST(GlobalTopK, KeepsOneElementAtLeast) {
  Floats input(kChunk);
  input[77] = 1e-30F;
  EXPECT_EQ(kept("topk-global:density=0.0000001", input), input);
}

TEST(GlobalTopK, SpendsNothingOnZeros) {
  Floats input(256 * kChunk);
  input[200 * kChunk + 5] = 1;
  const Encoded result = encode(*make_codec("topk-global:density=0.5"), input);
  EXPECT_EQ(result.decoded, input);
  // Two tables of 256 entries in one bit and in none, 12 bits of position, a value.
  EXPECT_LE(result.bytes.size(), 3U + 32 + 3 + 2 + 5);
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
