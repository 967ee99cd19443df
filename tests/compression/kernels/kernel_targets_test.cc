// The kernels under every instruction set that they are compiled for and this machine has, against
// their definitions. All bits must agree: which set a machine has must not show on the wire.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compression/base/chunk.h"
#include "compression/sparsifier/topk.h"
#include "compression/value/int8.h"
#include "compression/value/two_bit.h"
#include "tests/compression/base/chunks.h"

namespace causeway::compression {
namespace {

class Kernels : public testing::TestWithParam<std::int64_t> {
 protected:
  Kernels() { hwy::GetChosenTarget().Update(GetParam()); }
  ~Kernels() override { hwy::GetChosenTarget().Update(hwy::SupportedTargets()); }
};

double sum_of_squares_by_definition(const Floats& chunk) {
  std::vector<double> lanes(256);
  for (std::size_t i = 0; i < kChunk; ++i) {
    lanes[i / 512 * 32 + i % 32] += double{chunk[i]} * chunk[i];
  }
  for (std::size_t half = 128; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

TEST_P(Kernels, AddSquaresInTheDocumentedTree) {
  for (const Floats& chunk : chunks()) {
    EXPECT_EQ(sum_of_squares(ChunkView(chunk)), sum_of_squares_by_definition(chunk));
  }
}

TEST_P(Kernels, SeeWhatIsNotFiniteWhereverItIs) {
  for (const Floats& chunk : chunks()) EXPECT_TRUE(all_finite(ChunkView(chunk)));
  for (const std::size_t at : {0U, 1U, 15U, 16U, 2049U, 4095U}) {
    for (const float bad : {std::nanf(""), -std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
      Floats chunk = draw(gaussian_at, kChunk, 1);
      chunk[at] = bad;
      EXPECT_FALSE(all_finite(ChunkView(chunk))) << at;
    }
  }
}

constexpr float kBeta = 0.95F;

Floats p_by_definition(const Floats& delta, const Floats& residual) {
  Floats p(kChunk);
  for (std::size_t i = 0; i < kChunk; ++i) {
    const float decayed = kBeta * residual[i];
    p[i] = decayed + delta[i];
  }
  return p;
}

TEST_P(Kernels, AddTheDeltaToTheDecayedResidual) {
  for (const Floats& delta : chunks()) {
    const Floats old = draw(student_at, kChunk, 9, 1e-3);
    Floats residual = old;
    const auto norm = add_decayed({ChunkView(delta), kBeta, ChunkSpan(residual)});
    const Floats expected = p_by_definition(delta, old);
    EXPECT_EQ(norm, sum_of_squares_by_definition(expected));
    EXPECT_TRUE(same_bits(residual, expected));
  }
}

TEST_P(Kernels, SayThatASumIsNotFinite) {
  for (const std::size_t at : {0U, 511U, 4094U}) {
    Floats delta(kChunk, 1.0F);
    Floats residual(kChunk, 1.0F);
    delta[at] = residual[at] = std::numeric_limits<float>::max();
    const Floats old = residual;
    const FeedbackChunk chunk{ChunkView(delta), 1.0F, ChunkSpan(residual)};
    EXPECT_FALSE(add_decayed(chunk));
    residual = old;
    std::vector<std::byte> bytes(2 * kChunk);
    EXPECT_FALSE(int8_encode_feedback(chunk, 128, bytes.data(), bytes.data() + kChunk));
  }
}

TEST_P(Kernels, SelectTheLargestAndOfEqualOnesTheFirst) {
  for (const Floats& chunk : chunks()) {
    std::vector<std::uint16_t> order(kChunk);
    std::iota(order.begin(), order.end(), std::uint16_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::uint16_t a, std::uint16_t b) {
      return std::fabs(chunk[a]) > std::fabs(chunk[b]);
    });
    for (const std::size_t k : {1U, 7U, 64U, 65U, 512U, 1025U, 3000U, 4095U, 4096U}) {
      std::vector<std::uint16_t> expected(order.begin(), order.begin() + k);
      std::sort(expected.begin(), expected.end());
      std::vector<std::uint16_t> indices(k);
      select_topk(ChunkView(chunk), indices);
      EXPECT_EQ(indices, expected) << k;
    }
  }
}

struct TwoBitEncoding {
  std::uint16_t low = 0, high = 0;
  std::vector<std::byte> codes;
  Floats decoded{};
  bool operator==(const TwoBitEncoding& other) const {
    return low == other.low && high == other.high && codes == other.codes &&
           same_bits(decoded, other.decoded);
  }
};

// As docs/payload.md has it.
TwoBitEncoding two_bit_by_definition(const Floats& values) {
  std::uint32_t exponent = 1;
  for (const float x : values) exponent = std::max(exponent, exponent_field(magnitude_bits(x)));
  const auto units = [&](float x) { return fixed_point(magnitude_bits(x), exponent); };
  std::uint64_t total = 0;
  bool zeros = false;
  for (const float x : values) total += units(x), zeros |= x == 0;
  const auto is_high = [&](float x) { return zeros ? x != 0 : units(x) * values.size() >= total; };
  std::uint64_t sum[2] = {}, count[2] = {};
  for (const float x : values) sum[is_high(x)] += units(x), ++count[is_high(x)];
  TwoBitEncoding result{.codes = std::vector<std::byte>(bytes_for_bits(2 * values.size()))};
  if (count[0] > 0 && !zeros) result.low = centroid(sum[0], count[0], exponent);
  if (count[1] > 0) result.high = centroid(sum[1], count[1], exponent);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const unsigned code = (is_high(values[i]) ? 1U : 0U) | (values[i] < 0 ? 2U : 0U);
    result.codes[i / 4] |= static_cast<std::byte>(code << i % 4 * 2);
    const float level = ufloat16_value(is_high(values[i]) ? result.high : result.low);
    result.decoded.push_back(values[i] < 0 ? -level : level);
  }
  return result;
}

TEST_P(Kernels, EncodeTwoBitsAsDefined) {
  for (const Floats& chunk : chunks()) {
    for (const std::size_t count : {1U, 3U, 31U, 32U, 64U, 65U, 511U, 4096U}) {
      const Floats values(chunk.begin(), chunk.begin() + count);
      TwoBitEncoding actual{.codes = std::vector<std::byte>(bytes_for_bits(2 * count)),
                            .decoded = values};  // in place
      const Centroids centroids =
          two_bit_encode(actual.decoded, actual.decoded, actual.codes.data());
      actual.low = centroids.low;
      actual.high = centroids.high;
      EXPECT_EQ(actual, two_bit_by_definition(values)) << count;
      Floats decoded(count);
      EXPECT_TRUE(two_bit_decode(centroids, actual.codes.data(), decoded));
      EXPECT_TRUE(same_bits(decoded, actual.decoded));
    }
  }
}

struct Int8Encoding {
  std::vector<std::byte> scales, codes{};
  Floats decoded{}, rest{};
};

// As docs/payload.md has it.
Int8Encoding int8_by_definition(const Floats& values, std::size_t block) {
  Int8Encoding result;
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const std::size_t end = std::min(begin + block, values.size());
    float largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(values[i]));
    const std::uint16_t scale = int8_scale(largest);
    result.scales.push_back(static_cast<std::byte>(scale & 0xFF));
    result.scales.push_back(static_cast<std::byte>(scale >> 8));
    for (std::size_t i = begin; i < end; ++i) {
      const std::int32_t code = round_quotient(values[i], scale == 0 ? 1 : ufloat16_value(scale));
      result.codes.push_back(static_cast<std::byte>(code));
      result.decoded.push_back(ufloat16_value(scale) * static_cast<float>(code));
      result.rest.push_back(values[i] - result.decoded.back());
    }
  }
  return result;
}

void expect_int8_as_defined(const Floats& values, std::size_t block) {
  constexpr float kWeight = 0.3F;
  const Int8Encoding expected = int8_by_definition(values, block);
  Int8Encoding actual{.scales = std::vector<std::byte>(expected.scales.size()),
                      .codes = std::vector<std::byte>(values.size()),
                      .decoded = values,  // in place
                      .rest = values};
  int8_encode(actual.decoded, block, actual.decoded, actual.scales.data(), actual.codes.data());
  EXPECT_EQ(actual.scales, expected.scales);
  EXPECT_EQ(actual.codes, expected.codes);
  EXPECT_TRUE(same_bits(actual.decoded, expected.decoded));
  actual.codes.assign(values.size(), std::byte{0});
  int8_encode_rest(actual.rest, block, actual.scales.data(), actual.codes.data());
  EXPECT_EQ(actual.codes, expected.codes);
  EXPECT_TRUE(same_bits(actual.rest, expected.rest));

  Floats sum = draw(gaussian_at, values.size(), 8);
  Floats expected_sum = sum;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const float weighted = kWeight * expected.decoded[i];
    expected_sum[i] += weighted;
  }
  EXPECT_TRUE(int8_decode_add(actual.scales.data(), actual.codes.data(), block, kWeight, sum));
  EXPECT_TRUE(same_bits(sum, expected_sum));
}

TEST_P(Kernels, EncodeAndDecodeInt8AsDefined) {
  for (const Floats& chunk : chunks()) {
    for (const std::size_t count : {1U, 41U, 64U, 129U, 4096U}) {
      for (const std::size_t block : {1U, 2U, 16U, 128U, 4096U}) {
        SCOPED_TRACE(std::to_string(count) + " in blocks of " + std::to_string(block));
        expect_int8_as_defined(Floats(chunk.begin(), chunk.begin() + count), block);
      }
    }
  }
}

TEST_P(Kernels, FuseInt8WithFeedback) {
  for (const Floats& delta : chunks()) {
    for (const std::size_t block : {32U, 128U, 512U}) {
      ASSERT_TRUE(int8_feedback_takes(block));
      const Floats old = draw(student_at, kChunk, 9, 1e-3);
      const Floats p = p_by_definition(delta, old);
      const Int8Encoding expected = int8_by_definition(p, block);
      Floats residual = old;
      std::vector<std::byte> scales(expected.scales.size(), std::byte{9});
      std::vector<std::byte> codes(kChunk, std::byte{9});
      const auto stats = int8_encode_feedback({ChunkView(delta), kBeta, ChunkSpan(residual)}, block,
                                              scales.data(), codes.data());
      EXPECT_EQ(scales, expected.scales);
      EXPECT_EQ(codes, expected.codes);
      EXPECT_TRUE(same_bits(residual, expected.rest));
      ASSERT_TRUE(stats);
      EXPECT_EQ(stats->input_norm_squared, sum_of_squares_by_definition(p));
      EXPECT_EQ(stats->error_norm_squared, sum_of_squares_by_definition(expected.rest));
    }
  }
}

TEST_P(Kernels, RefuseInt8CodesThatNoEncoderWrites) {
  constexpr std::size_t kBlock = 128;
  for (const std::size_t at : {0U, 31U, 127U, 128U, 140U}) {
    for (const bool zero_scale : {false, true}) {
      std::vector<std::byte> scales(4, std::byte{0x70});
      std::vector<std::byte> codes(141);
      if (zero_scale) scales[at / kBlock * 2] = scales[at / kBlock * 2 + 1] = std::byte{0};
      Floats sum(codes.size());
      EXPECT_TRUE(int8_decode_add(scales.data(), codes.data(), kBlock, 1, sum));
      codes[at] = zero_scale ? std::byte{1} : std::byte{0x80};
      EXPECT_FALSE(int8_decode_add(scales.data(), codes.data(), kBlock, 1, sum)) << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Kernels, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) { return hwy::TargetName(target.param); });

TEST(MagnitudeReaching, IsTheSmallestThatDoes) {
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const auto exponent = static_cast<std::uint32_t>(1 + mix(i) % 254);
    const std::uint64_t units = 1 + (mix(i) >> 24 >> mix(i + 1) % 40);
    const std::uint32_t bits = magnitude_reaching(units, exponent);
    ASSERT_LE(exponent_field(bits), exponent + 1);
    // Beyond the exponent there is nothing to compare with.
    if (exponent_field(bits) <= exponent) {
      ASSERT_GE(fixed_point(bits, exponent), units) << i;
    }
    if (bits > 1) {
      ASSERT_LT(fixed_point(bits - 1, exponent), units) << i;
    }
  }
}

}  // namespace
}  // namespace causeway::compression
