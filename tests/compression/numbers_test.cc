// The scalar rules: bf16, packed bits, int8 scales and rounding, the norm's tree.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "compression/bfloat16.h"
#include "compression/bytes.h"
#include "compression/chunk.h"
#include "compression/int8.h"
#include "tests/compression/samples.h"

namespace causeway::compression {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

TEST(Bfloat16, RoundsUpToTheSmallestNotBelow) {
  for (std::uint32_t bits = 1; bits < kBfloat16Max; ++bits) {
    const float value = bfloat16_value(static_cast<std::uint16_t>(bits));
    EXPECT_EQ(bfloat16_up(value), bits);
    EXPECT_EQ(bfloat16_up(std::nextafter(value, kInfinity)), bits + 1);
    EXPECT_EQ(bfloat16_up(std::nextafter(value, 0.0F)), value == kSmallest ? 0 : bits);
  }
  EXPECT_EQ(bfloat16_up(0), 0);
  EXPECT_EQ(bfloat16_up(kLargest), kBfloat16Max);
}

TEST(Bfloat16, RoundsToNearestWithTiesToEven) {
  EXPECT_EQ(bfloat16_nearest(1.0F + 0x1p-8F), 0x3F80);  // a tie, down to even
  EXPECT_EQ(bfloat16_nearest(1.0F + 0x3p-8F), 0x3F82);  // a tie, up to even
  EXPECT_EQ(bfloat16_nearest(1.0F + 0x1.1p-8F), 0x3F81);
  EXPECT_EQ(bfloat16_nearest(kLargest), kBfloat16Max);
  for (int i = 0; i < 10000; ++i) {
    const auto x =
        static_cast<float>(std::exp(40 * gaussian_at(7, static_cast<std::uint64_t>(i)) / 3));
    const double error = std::fabs(double{bfloat16_value(bfloat16_nearest(x))} - x);
    EXPECT_LE(error, x * 0x1p-8) << x;
  }
}

TEST(Int8, ScaleClipsNothingAndIsZeroForZeroAlone) {
  EXPECT_EQ(int8_scale(0), 0);
  for (int i = 0; i < 20000; ++i) {
    const double exponent = 277 * uniform(3, static_cast<std::uint64_t>(i)) - 149;
    const auto max = static_cast<float>(std::exp2(exponent));
    const std::uint16_t scale = int8_scale(max);
    EXPECT_GT(scale, 0) << max;
    EXPECT_LE(round_quotient(max, bfloat16_value(scale)), kInt8Max) << max;
  }
  EXPECT_EQ(int8_scale(kSmallest), 1);
}

TEST(Int8, LargestScaleDecodesToFiniteNumbers) {
  EXPECT_EQ(round_quotient(kLargest, bfloat16_value(int8_scale(kLargest))), kInt8Max);
  EXPECT_TRUE(std::isfinite(kInt8Max * bfloat16_value(kInt8ScaleMax)));
  EXPECT_FALSE(std::isfinite(kInt8Max * bfloat16_value(kInt8ScaleMax + 1)));
}

TEST(Int8, RoundsQuotientsToNearestEven) {
  EXPECT_EQ(round_quotient(2.5F, 1), 2);
  EXPECT_EQ(round_quotient(3.5F, 1), 4);
  EXPECT_EQ(round_quotient(-2.5F, 1), -2);
  EXPECT_EQ(round_quotient(-0.0F, 1), 0);
  for (int i = -1000; i <= 1000; ++i) {
    const float x = static_cast<float>(i) * 0.127F;
    EXPECT_EQ(round_quotient(x, 1), static_cast<int>(std::nearbyint(x)));
  }
}

TEST(Bits, ComeBackAsWritten) {
  std::array<std::byte, 8> bytes{};
  BitWriter writer(bytes.data());
  writer.put(5, 3);
  writer.put(0, 0);
  writer.put(0xABCDE, 20);
  writer.put(1, 2);
  writer.finish();
  EXPECT_EQ(bytes[0], std::byte{0xF5});  // the first field in the lowest bits
  EXPECT_EQ(bytes[4], std::byte{0});
  BitReader reader(bytes.data());
  EXPECT_EQ(reader.get(3), 5U);
  EXPECT_EQ(reader.get(0), 0U);
  EXPECT_EQ(reader.get(20), 0xABCDEU);
  EXPECT_FALSE(reader.rest_is_zero());
  EXPECT_EQ(reader.get(2), 1U);
  EXPECT_TRUE(reader.rest_is_zero());
}

TEST(Chunk, SumOfSquaresFollowsTheDocumentedTree) {
  const Floats chunk = draw(gaussian_at, kChunk);
  std::array<double, 256> lanes{};
  for (std::size_t i = 0; i < kChunk; ++i) lanes[i % 256] += double{chunk[i]} * chunk[i];
  for (std::size_t half = 128; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  EXPECT_EQ(sum_of_squares(ChunkView(chunk)), lanes[0]);
}

TEST(Chunk, FindsNonFiniteValuesAnywhere) {
  Floats chunk(kChunk, kLargest);
  EXPECT_TRUE(all_finite(ChunkView(chunk)));
  for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
    for (const std::size_t at : {0U, 1000U, 4095U}) {
      chunk[at] = bad;
      EXPECT_FALSE(all_finite(ChunkView(chunk)));
      chunk[at] = 0;
    }
  }
}

}  // namespace
}  // namespace causeway::compression
