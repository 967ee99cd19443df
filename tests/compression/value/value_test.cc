// What is special to each value format; what all do is in conformance_test.cc.
#include "compression/value/value.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compression/base/float16.h"
#include "compression/base/scale.h"
#include "compression/value/nibbles.h"
#include "tests/compression/codecs/samples.h"

namespace causeway::compression {
namespace {

using Bytes = std::vector<std::byte>;

std::unique_ptr<ValueFormat> make(const std::string& spec) {
  Spec parts("dense:" + spec);
  auto format = make_value(parts.variant(), parts);
  parts.finish();
  return format;
}

struct Result {
  Bytes bytes;
  Floats decoded;
};

Result encode(const std::string& spec, const Floats& values) {
  const auto format = make(spec);
  Result result{Bytes(format->bytes(values.size())), Floats(values.size())};
  format->encode(values, result.decoded, result.bytes.data(), {});
  return result;
}

bool decodes(const std::string& spec, const Bytes& bytes, std::size_t count) {
  const auto format = make(spec);
  EXPECT_EQ(format->bytes(count), bytes.size());
  Floats values(count);
  return format->decode(bytes.data(), values);
}

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// Bits per value with the scales.
TEST(ValueSize, IsAsComputed) {
  const auto bits = [](const char* spec) {
    return 8 * static_cast<double>(make(spec)->bytes(kChunk)) / kChunk;
  };
  EXPECT_EQ(bits("fp32"), 32);
  EXPECT_EQ(bits("bf16"), 16);
  EXPECT_EQ(bits("fp16"), 16 + 8.0 / kChunk);
  EXPECT_EQ(bits("int8,block=64"), 8.25);
  EXPECT_EQ(bits("int8"), 8.125);
  EXPECT_EQ(bits("int4,block=32"), 4.5);
  EXPECT_EQ(bits("int4"), 4.25);
  EXPECT_EQ(bits("int4,block=128"), 4.125);
  EXPECT_EQ(bits("int4-asymmetric"), 4.3125);
  EXPECT_EQ(bits("2bit"), 2 + 32.0 / kChunk);
  EXPECT_EQ(bits("1bit"), 1.28125);
}

TEST(ValueSize, CountsPartialBlocksAndBytes) {
  EXPECT_EQ(make("int4")->bytes(65), 2 * 2 + 33U);
  EXPECT_EQ(make("int4-asymmetric")->bytes(65), 2 * 2 + 1 + 33U);
  EXPECT_EQ(make("1bit,block=1")->bytes(9), 9 * 2 + 3 + 2U);
}

class AnyCount : public testing::TestWithParam<const char*> {};

TEST_P(AnyCount, RoundTripsInPlaceAndAddsTheSame) {
  const auto format = make(GetParam());
  for (const std::size_t count : {1U, 2U, 3U, 63U, 64U, 65U, 129U, 4095U, 4096U}) {
    const Floats input = draw(laplace_at, count);
    Floats values = input;
    Bytes bytes(format->bytes(count));
    format->encode(values, values, bytes.data(), {});
    EXPECT_EQ(values, encode(GetParam(), input).decoded);
    Floats decoded(count, 7.0F);
    ASSERT_TRUE(format->decode(bytes.data(), decoded));
    EXPECT_EQ(decoded, values);
    Floats sum(count, 1.0F);
    ASSERT_TRUE(format->decode_add(bytes.data(), 0.7F, sum));
    for (std::size_t i = 0; i < count; ++i) {
      const float product = 0.7F * values[i];
      ASSERT_EQ(sum[i], 1.0F + product);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AnyCount,
                         testing::Values("fp32", "bf16", "fp16", "int8", "int4", "int4-asymmetric",
                                         "2bit", "1bit"));

TEST(Bf16, RoundsToNearestEvenAndNeverToInfinity) {
  EXPECT_EQ(bf16_nearest(1.0F), 0x3F80);
  EXPECT_EQ(bf16_nearest(-1.0F - 0x1p-8F), 0xBF80);  // a tie, to even
  EXPECT_EQ(bf16_nearest(1.0F + 0x3p-8F), 0x3F82);
  EXPECT_EQ(bf16_nearest(kLargest), 0x7F7F);
  EXPECT_EQ(bf16_nearest(-kSmallest), 0);
  EXPECT_TRUE(decodes("bf16", bytes_of({0x7F, 0xFF}), 1));
  EXPECT_FALSE(decodes("bf16", bytes_of({0x80, 0x7F}), 1)) << "infinity";
  EXPECT_FALSE(decodes("bf16", bytes_of({0xC0, 0xFF}), 1)) << "NaN";
  EXPECT_FALSE(decodes("bf16", bytes_of({0x00, 0x80}), 1)) << "minus zero";
}

TEST(Fp16, EveryNumberIsItsOwnNearestAndMiddlesDivide) {
  for (std::uint16_t bits = 0; bits < kFp16Two15; ++bits) {
    const float value = fp16_value(bits);
    const float next = fp16_value(static_cast<std::uint16_t>(bits + 1));
    const float middle = value + (next - value) / 2;
    ASSERT_EQ(fp16_nearest(value, kFp16Two15), bits);
    ASSERT_EQ(fp16_nearest(middle, kFp16Two15), bits + (bits & 1));
    ASSERT_EQ(fp16_nearest(std::nextafter(middle, 0.0F), kFp16Two15), bits);
    ASSERT_EQ(fp16_nearest(std::nextafter(middle, 1e9F), kFp16Two15), bits + 1);
  }
  EXPECT_EQ(fp16_value(0x3C00), 1.0F);
  EXPECT_EQ(fp16_value(0x8001), 0.0F - 0x1p-24F);
}

TEST(Fp16, KeepsElevenBitsAtAnyScale) {
  for (int exponent = -110; exponent <= 127; ++exponent) {
    const Floats values = draw(gaussian_at, 100, 1, std::ldexp(0.1, exponent));
    const Floats decoded = encode("fp16", values).decoded;
    for (std::size_t i = 0; i < 100; ++i) {
      ASSERT_NEAR(decoded[i] / values[i], 1, 0x1p-11) << exponent;
    }
  }
}

TEST(Fp16, IsExactForTheSmallestNumbers) {
  const Floats values{kSmallest, -3 * kSmallest, 700 * kSmallest};
  EXPECT_EQ(encode("fp16", values).decoded, values);
}

TEST(Fp16, RefusesAnExponentThatTheLargestDoesNotNeed) {
  EXPECT_TRUE(decodes("fp16", bytes_of({112, 0x00, 0x74}), 1));
  EXPECT_FALSE(decodes("fp16", bytes_of({112, 0xFF, 0x73}), 1));
  EXPECT_FALSE(decodes("fp16", bytes_of({112, 0x01, 0x78}), 1));
  EXPECT_FALSE(decodes("fp16", bytes_of({0, 0x00, 0x74}), 1));
  EXPECT_FALSE(decodes("fp16", bytes_of({1, 0, 0}), 1));
  EXPECT_TRUE(decodes("fp16", bytes_of({239, 0xFF, 0x77}), 1));
  EXPECT_FALSE(decodes("fp16", bytes_of({239, 0x00, 0x78}), 1)) << "infinity";
  EXPECT_FALSE(decodes("fp16", bytes_of({240, 0x00, 0x74}), 1));
}

TEST(Scale, CoversTheLargestWhereAsked) {
  for (int i = 0; i < 20000; ++i) {
    const double exponent = 276 * uniform(3, static_cast<std::uint64_t>(i)) - 149;
    const auto max = static_cast<float>(std::exp2(exponent));
    for (const float top : {1.0F, 6.0F, 7.0F, 15.0F, 16.0F, 127.0F}) {
      const std::uint16_t nearest = scale_for(max, top, false);
      const std::uint16_t cover = scale_for(max, top, true);
      ASSERT_GT(nearest, 0);
      ASSERT_GE(ufloat16_value(cover) * top, max);
      ASSERT_LE(cover - nearest, 1);
      ASSERT_LE(max / ufloat16_value(nearest), top * 1.002F);
    }
  }
  EXPECT_EQ(scale_for(0, 7, true), 0);
  for (const float top : {1.0F, 6.0F, 7.0F, 15.0F, 16.0F, 127.0F}) {
    EXPECT_EQ(scale_for(kLargest, top, true), scale_max(top));
    EXPECT_TRUE(std::isfinite(ufloat16_value(scale_max(top)) * top));
    EXPECT_FALSE(std::isfinite(ufloat16_value(scale_max(top) + 1) * top)) << top;
  }
}

TEST(Nibbles, PutTheFirstCodeLowest) {
  const std::vector<std::uint8_t> codes{1, 0, 2, 2, 1};
  Bytes bytes(3);
  Nibbles::pack(codes, bytes.data());
  EXPECT_EQ(bytes, bytes_of({0x01, 0x22, 0x01}));
}

TEST(Nibbles, RefuseWhatTheyWouldNotWrite) {
  std::vector<std::uint8_t> three(3);
  EXPECT_TRUE(Nibbles::unpack(bytes_of({0xFF, 0x0F}).data(), three));
  EXPECT_FALSE(Nibbles::unpack(bytes_of({0xFF, 0x1F}).data(), three)) << "an unused half";
}

TEST(Int4, RoundsToTheNearestIntegerWithTiesToTheEvenOne) {
  const Floats decoded = encode("int4", {7, 2.5F, 3.5F, -2.5F, -3.5F, 0.5F, -0.5F, 1.49F}).decoded;
  EXPECT_EQ(decoded, (Floats{7, 2, 4, -2, -4, 0, 0, 1}));
}

TEST(Int4, WritesScalesThenCodes) {
  // Scale 2; codes count levels from -7 up.
  const Result result = encode("int4,block=4", {14, -4, 0, 3.1F, 0});
  EXPECT_EQ(result.bytes, bytes_of({0x00, 0x80, 0, 0, 0x5E, 0x97, 0x07}));
  EXPECT_EQ(result.decoded, (Floats{14, -4, 0, 4, 0}));
}

TEST(Int4, RefusesWhatIsNotCanonical) {
  EXPECT_TRUE(decodes("int4", bytes_of({0, 0x80, 0x0E}), 1));
  EXPECT_FALSE(decodes("int4", bytes_of({0, 0x80, 0x0F}), 1)) << "no such level";
  EXPECT_TRUE(decodes("int4", bytes_of({0, 0, 0x07}), 1));
  EXPECT_FALSE(decodes("int4", bytes_of({0, 0, 0x08}), 1)) << "a value in a block of zeros";
  EXPECT_FALSE(decodes("int4", bytes_of({0xFF, 0xFE, 0x0E}), 1)) << "overflows";
}

TEST(Int4Asymmetric, ReachesFromTheSmallestToTheLargest) {
  // Range 15, scale 1: codes -3 to 12 about a zero at 3.
  const Floats values{-3, 12, 0, 5.4F, -0.5F};
  const Result result = encode("int4-asymmetric", values);
  EXPECT_EQ(result.decoded, (Floats{-3, 12, 0, 5, 0}));
  EXPECT_EQ(result.bytes, bytes_of({0x00, 0x7F, 3, 0xF0, 0x83, 0x03}));
}

TEST(Int4Asymmetric, BeatsTheSymmetricOnSkewedBlocks) {
  Floats values = draw(laplace_at, kChunk);
  for (float& x : values) x = std::fabs(x);
  const auto error = [&](const char* spec) {
    const Floats decoded = encode(spec, values).decoded;
    double sum = 0;
    for (std::size_t i = 0; i < kChunk; ++i) sum += std::pow(decoded[i] - values[i], 2);
    return sum;
  };
  EXPECT_LT(error("int4-asymmetric"), 0.4 * error("int4"));
}

TEST(Int4Asymmetric, RefusesWhatIsNotCanonical) {
  EXPECT_TRUE(decodes("int4-asymmetric", bytes_of({0, 0x7F, 3, 0xF0, 0x83, 0x03}), 5));
  EXPECT_FALSE(decodes("int4-asymmetric", bytes_of({0, 0x7F, 0x13, 0xF0, 0x83, 0x03}), 5));
  EXPECT_FALSE(decodes("int4-asymmetric", bytes_of({0, 0, 3, 0x33, 0x33, 0x03}), 5));
  EXPECT_FALSE(decodes("int4-asymmetric", bytes_of({0xFF, 0xFE, 3, 0xF0, 0x83, 0x03}), 5));
}

TEST(OneBit, SendsSignsAtTheMean) {
  const Result result = encode("1bit,block=4", {1, -2, 3, -2, 5});
  EXPECT_EQ(result.decoded, (Floats{2, -2, 2, -2, 5}));
  EXPECT_EQ(result.bytes, bytes_of({0x00, 0x80, 0x40, 0x81, 0, 0b0'1010}));
}

TEST(OneBit, InABlockWithZerosSendsTheSignOfTheLargerSum) {
  EXPECT_EQ(encode("1bit", {0, -2, 1, -4, -0.0F}).decoded, (Floats{0, -3, 0, -3, 0}));
  EXPECT_EQ(encode("1bit", {0, 2, -2}).decoded, (Floats{0, 2, 0})) << "a tie is positive";
}

// What the other sign keeps in the residual is sent when its sum is the larger one.
TEST(OneBit, WithFeedbackSendsBothSignsOfABlockWithZeros) {
  const Floats values{0, 2, -1, 0.5F, -0.25F};
  Floats residual(values.size());
  Floats sent(values.size());
  for (int round = 0; round < 200; ++round) {
    for (std::size_t i = 0; i < values.size(); ++i) residual[i] += values[i];
    const Floats decoded = encode("1bit", residual).decoded;
    for (std::size_t i = 0; i < values.size(); ++i) {
      sent[i] += decoded[i] / 200;
      residual[i] -= decoded[i];
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(sent[i], values[i], 0.1) << i;
}

TEST(OneBit, RefusesWhatIsNotCanonical) {
  const auto accepts = [](int kind, int bits, int mean = 0x7F) {
    return decodes("1bit", bytes_of({0, mean, kind, bits}), 4);
  };
  EXPECT_TRUE(accepts(0, 0b1111));
  EXPECT_TRUE(accepts(1, 0b0111));
  EXPECT_TRUE(accepts(2, 0b0111));
  EXPECT_FALSE(accepts(3, 0b0111)) << "no such kind";
  EXPECT_FALSE(accepts(1, 0b1111)) << "no zero in a block with zeros";
  EXPECT_FALSE(accepts(1, 0b0000)) << "nothing but zeros with a mean";
  EXPECT_FALSE(accepts(0, 0b11111)) << "unused bits";
  EXPECT_FALSE(accepts(4, 0b0111)) << "unused bits";
  EXPECT_TRUE(accepts(0, 0, 0));
  EXPECT_FALSE(accepts(0, 1, 0)) << "a value in a block of zeros";
  EXPECT_FALSE(accepts(1, 1, 0)) << "a value in a block of zeros";
  EXPECT_FALSE(accepts(0, 0, 0xFF)) << "infinity";
}

}  // namespace
}  // namespace causeway::compression
