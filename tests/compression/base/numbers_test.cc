// The scalar rules: ufloat16, packed bits, int8 scales and rounding, the norm's tree.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "compression/base/bytes.h"
#include "compression/base/chunk.h"
#include "compression/base/scale.h"
#include "compression/value/int8.h"
#include "tests/compression/codecs/samples.h"

namespace causeway::compression {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Ufloat16, RoundsToNearestWithTiesToEven) {
  EXPECT_EQ(ufloat16_nearest(1.0F), 0x7F00);
  EXPECT_EQ(ufloat16_nearest(1.0F + 0x1p-9F), 0x7F00);  // a tie, down to even
  EXPECT_EQ(ufloat16_nearest(1.0F + 0x3p-9F), 0x7F02);  // a tie, up to even
  EXPECT_EQ(ufloat16_nearest(1.0F + 0x1.1p-9F), 0x7F01);
  EXPECT_EQ(ufloat16_nearest(0), 0);
  EXPECT_EQ(ufloat16_nearest(kSmallest), 0);
  EXPECT_EQ(ufloat16_nearest(kLargest), kUfloat16Max);
}

TEST(Ufloat16, EveryNumberIsItsOwnNearestAndMiddlesDivide) {
  for (std::uint32_t bits = 0; bits < kUfloat16Max; ++bits) {
    const float value = ufloat16_value(static_cast<std::uint16_t>(bits));
    const float next = ufloat16_value(static_cast<std::uint16_t>(bits + 1));
    const float middle = value + (next - value) / 2;
    ASSERT_LT(value, next);
    ASSERT_EQ(ufloat16_nearest(value), bits);
    ASSERT_EQ(ufloat16_nearest(middle), bits + (bits & 1));
    ASSERT_EQ(ufloat16_nearest(std::nextafter(middle, 0.0F)), bits);
    ASSERT_EQ(ufloat16_nearest(std::nextafter(middle, kInfinity)), bits + 1);
  }
}

TEST(Int8, ScaleClipsNothingAndIsZeroForZeroAlone) {
  EXPECT_EQ(int8_scale(0), 0);
  EXPECT_EQ(int8_scale(kSmallest), 1);
  for (int i = 0; i < 20000; ++i) {
    const double exponent = 277 * uniform(3, static_cast<std::uint64_t>(i)) - 149;
    const auto max = static_cast<float>(std::exp2(exponent));
    const std::uint16_t scale = int8_scale(max);
    EXPECT_GT(scale, 0) << max;
    EXPECT_LE(round_quotient(max, ufloat16_value(scale)), kInt8Max) << max;
    // Of a normal scale: nothing is wasted either.
    if (scale < 0x100) continue;
    EXPECT_EQ(round_quotient(max, ufloat16_value(scale)), kInt8Max) << max;
  }
}

TEST(Int8, LargestScaleDecodesToFiniteNumbers) {
  EXPECT_EQ(int8_scale(kLargest), kInt8ScaleMax);
  EXPECT_EQ(round_quotient(kLargest, ufloat16_value(kInt8ScaleMax)), kInt8Max);
  EXPECT_TRUE(std::isfinite(kInt8Max * ufloat16_value(kInt8ScaleMax)));
  EXPECT_FALSE(std::isfinite(kInt8Max * ufloat16_value(kInt8ScaleMax + 1)));
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
  for (std::size_t i = 0; i < kChunk; ++i) {
    lanes[i / 512 * 32 + i % 32] += double{chunk[i]} * chunk[i];
  }
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
