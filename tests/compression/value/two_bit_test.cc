#include "compression/value/two_bit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/compression/codecs/samples.h"

namespace causeway::compression {
namespace {

struct Encoded {
  Centroids centroids{};
  std::vector<std::byte> codes;
  Floats decoded;
};

Encoded encode(const Floats& values) {
  Encoded result{.codes = std::vector<std::byte>(bytes_for_bits(2 * values.size())),
                 .decoded = Floats(values.size())};
  result.centroids = two_bit_encode(values, result.decoded, result.codes.data());
  return result;
}

bool decodes(Centroids centroids, std::vector<std::byte> codes, std::size_t count) {
  Floats decoded(count);
  return two_bit_decode(centroids, codes.data(), decoded);
}

TEST(TwoBit, PutsValuesOnTheMeansBelowAndFromTheMeanUp) {
  // mean|v| = 4; {1, -2, 3} below, {-4, 10} from it up.
  const Encoded result = encode({1, -2, 3, -4, 10});
  EXPECT_EQ(result.decoded, (Floats{2, -2, 2, -7, 7}));
  // Codes 0, 2, 0, 3, then 1, least significant first.
  EXPECT_EQ(result.codes, (std::vector{std::byte{0b11'00'10'00}, std::byte{0b01}}));
}

TEST(TwoBit, EqualMagnitudesAreAllHigh) {
  const Encoded result = encode({3, -3, 3});
  EXPECT_EQ(result.centroids.low, 0);
  EXPECT_EQ(result.decoded, (Floats{3, -3, 3}));
}

TEST(TwoBit, ZerosStayExactlyZero) {
  const Encoded result = encode({0, 8, -0.0F, -2, 0});
  EXPECT_EQ(result.decoded, (Floats{0, 5, 0, -5, 0}));
  for (const float x : encode(Floats(64)).decoded) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(x), 0U);
  }
}

TEST(TwoBit, DoesNotDependOnTheOrderOfTheValues) {
  Floats values = draw(student_at, 1000);
  const Centroids centroids = encode(values).centroids;
  std::sort(values.begin(), values.end());
  EXPECT_EQ(encode(values).centroids.low, centroids.low);
  EXPECT_EQ(encode(values).centroids.high, centroids.high);
}

TEST(TwoBit, CentroidsAreTheMeansInDoublePrecision) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Floats values = draw(laplace_at, 64, seed, std::ldexp(1.0, static_cast<int>(seed) - 100));
    double mean = 0;
    for (const float x : values) mean += std::fabs(x) / 64;
    double sum[2] = {0, 0}, count[2] = {0, 0};
    for (const float x : values) {
      const bool high = std::fabs(x) >= mean;
      sum[high] += std::fabs(x);
      ++count[high];
    }
    const Centroids centroids = encode(values).centroids;
    EXPECT_NEAR(ufloat16_value(centroids.low) * count[0] / sum[0], 1, 0x1p-9);
    EXPECT_NEAR(ufloat16_value(centroids.high) * count[1] / sum[1], 1, 0x1p-9);
  }
}

TEST(TwoBit, ReachesBothEndsOfTheRange) {
  const float largest = std::numeric_limits<float>::max();
  const float smallest = std::numeric_limits<float>::denorm_min();
  for (const float x : encode(Floats(64, -largest)).decoded) {
    EXPECT_EQ(x, -ufloat16_value(kUfloat16Max));
  }
  for (const float x : encode(Floats(64, smallest)).decoded) EXPECT_GT(x, 0);
  const Encoded wide = encode({largest, smallest});
  EXPECT_GT(wide.centroids.low, 0);
  EXPECT_EQ(wide.decoded[1], ufloat16_value(1));
}

TEST(TwoBit, DecodesWhatItEncodes) {
  for (const std::size_t count : {1U, 2U, 3U, 41U, 64U, 4096U}) {
    const Encoded result = encode(draw(gaussian_at, count));
    Floats decoded(count);
    ASSERT_TRUE(two_bit_decode(result.centroids, result.codes.data(), decoded));
    EXPECT_EQ(decoded, result.decoded);
  }
}

TEST(TwoBit, RefusesWhatIsNotCanonical) {
  const std::vector codes{std::byte{0b00'00'01'10}};  // -low, high, low, low
  EXPECT_TRUE(decodes({0x7F00, 0x8000}, codes, 4));
  EXPECT_FALSE(decodes({0x8000, 0x7F00}, codes, 4)) << "centroids out of order";
  EXPECT_FALSE(decodes({0x7F00, 0xFF00}, codes, 4)) << "infinite centroid";
  EXPECT_FALSE(decodes({0, 0x8000}, codes, 4)) << "minus zero";
  EXPECT_FALSE(decodes({0, 0}, {std::byte{1}}, 4)) << "high without a high centroid";
  EXPECT_FALSE(decodes({0x7F00, 0x8000}, {std::byte{0b01'01'01'01}}, 4)) << "a low centroid unused";
  EXPECT_FALSE(decodes({0x7F00, 0x8000}, {std::byte{0}}, 4)) << "a high centroid unused";
  EXPECT_FALSE(decodes({0x7F00, 0x8000}, {std::byte{0b01'00'00'00}}, 3)) << "unused bits";
}

}  // namespace
}  // namespace causeway::compression
