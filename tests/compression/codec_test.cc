// What every codec must do, whatever it is.
#include "compression/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/compression/samples.h"

namespace causeway::compression {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

struct Encoded {
  std::vector<std::byte> bytes;
  Floats decoded;
  EncodeStats stats;
};

Encoded encode(const Codec& codec, const Floats& input) {
  Encoded result{.bytes = {}, .decoded = Floats(input.size(), 42.0F), .stats = {}};
  result.stats = codec.encode(input, result.decoded, result.bytes);
  return result;
}

double relative_error(const EncodeStats& stats) {
  return stats.error_norm_squared / stats.input_norm_squared;
}

std::error_code decode_code(const Codec& codec, std::span<const std::byte> bytes, Floats& sum) {
  try {
    codec.decode_add(bytes, 1.0F, sum);
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

class EveryCodec : public testing::TestWithParam<const char*> {
 protected:
  const std::unique_ptr<Codec> codec_ = make_codec(GetParam());
};

TEST_P(EveryCodec, DecodesToWhatTheEncoderSaid) {
  const Floats input = draw(student_at, 5 * kChunk);
  const Encoded result = encode(*codec_, input);
  ASSERT_EQ(result.bytes.size(), codec_->encoded_bytes_max(input.size()));
  Floats sum = draw(gaussian_at, input.size(), 8);
  const Floats before = sum;
  constexpr float kWeight = 0.3F;
  codec_->decode_add(result.bytes, kWeight, sum);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const float product = kWeight * result.decoded[i];
    ASSERT_EQ(sum[i], before[i] + product) << i;
  }
}

TEST_P(EveryCodec, ReportsNormsOfInputAndError) {
  const Floats input = draw(laplace_at, 3 * kChunk);
  const Encoded result = encode(*codec_, input);
  Floats error(input.size());
  for (std::size_t i = 0; i < input.size(); ++i) error[i] = input[i] - result.decoded[i];
  EXPECT_NEAR(result.stats.input_norm_squared / norm_squared(input), 1, 1e-12);
  EXPECT_NEAR(result.stats.error_norm_squared, norm_squared(error), 1e-12 * norm_squared(input));
  EXPECT_LT(relative_error(result.stats), 1);
}

TEST_P(EveryCodec, EncodesChunksAlone) {
  const Floats input = draw(gaussian_at, 7 * kChunk);
  const Encoded whole = encode(*codec_, input);
  for (const std::size_t step : {1U, 2U, 5U}) {
    std::vector<std::byte> joined;
    for (std::size_t begin = 0; begin < input.size(); begin += step * kChunk) {
      const std::size_t count = std::min(step * kChunk, input.size() - begin);
      Floats decoded(count);
      codec_->encode(std::span(input).subspan(begin, count), decoded, joined);
    }
    EXPECT_EQ(joined, whole.bytes) << step;
  }
}

TEST_P(EveryCodec, IsUnchangedByScalingWithPowersOfTwo) {
  const Floats input = draw(laplace_at, 2 * kChunk);
  const Encoded plain = encode(*codec_, input);
  for (const int exponent : {-40, -20, -3, 7, 40}) {
    Floats scaled = input;
    for (float& x : scaled) x = std::ldexp(x, exponent);
    const Encoded result = encode(*codec_, scaled);
    EXPECT_EQ(relative_error(result.stats), relative_error(plain.stats)) << exponent;
    for (std::size_t i = 0; i < input.size(); ++i) {
      ASSERT_EQ(result.decoded[i], std::ldexp(plain.decoded[i], exponent)) << i;
    }
  }
}

TEST_P(EveryCodec, KeepsZerosExactlyZero) {
  Floats input = draw(gaussian_at, 2 * kChunk);
  std::fill(input.begin() + 20, input.begin() + kChunk, 0.0F);  // padding after 20 numbers
  const Encoded result = encode(*codec_, input);
  for (std::size_t i = 20; i < kChunk; ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(result.decoded[i]), 0U) << i;
  }
}

TEST_P(EveryCodec, EncodesZerosAsZerosAlone) {
  const Floats input(2 * kChunk);
  const Encoded result = encode(*codec_, input);
  EXPECT_EQ(result.decoded, input);
  EXPECT_EQ(result.stats.error_norm_squared, 0);
  Floats sum(input.size(), 3.0F);
  codec_->decode_add(result.bytes, 1.0F, sum);
  EXPECT_EQ(sum, Floats(input.size(), 3.0F));
}

TEST_P(EveryCodec, KeepsTheOnlyNonZeroOfAChunk) {
  for (const std::size_t at : {0U, 1234U, 4095U}) {
    for (const float value : {1.0F, -0x1p-120F, 0x1p120F}) {
      Floats input(kChunk);
      input[at] = value;
      const Floats decoded = encode(*codec_, input).decoded;
      EXPECT_NEAR(decoded[at] / value, 1, 0.01);
      EXPECT_EQ(std::count(decoded.begin(), decoded.end(), 0.0F), kChunk - 1);
    }
  }
}

TEST_P(EveryCodec, StaysFiniteAtTheEndsOfTheRange) {
  for (const float magnitude : {kLargest, 0x1.fp127F, 0x1p-126F, 100 * kSmallest, kSmallest}) {
    Floats input = draw(gaussian_at, kChunk);
    for (float& x : input) x = x < 0 ? -magnitude : magnitude / 3;
    const Encoded result = encode(*codec_, input);
    Floats sum(kChunk);
    codec_->decode_add(result.bytes, 1.0F, sum);
    for (std::size_t i = 0; i < kChunk; ++i) {
      ASSERT_TRUE(std::isfinite(sum[i]));
      ASSERT_EQ(sum[i], result.decoded[i]);
    }
  }
}

TEST_P(EveryCodec, RefusesNonFiniteInputAndAppendsNothing) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const std::size_t at : {0U, 4096U, 2 * 4096U - 1}) {
      Floats input = draw(gaussian_at, 2 * kChunk);
      input[at] = bad;
      Floats decoded(input.size());
      std::vector<std::byte> out{std::byte{7}};
      try {
        codec_->encode(input, decoded, out);
        FAIL() << "accepted";
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code(), Errc::not_finite);
      }
      EXPECT_EQ(out, std::vector{std::byte{7}});
    }
  }
}

TEST_P(EveryCodec, RefusesBytesOfTheWrongLength) {
  const Floats input = draw(gaussian_at, 2 * kChunk);
  std::vector<std::byte> bytes = encode(*codec_, input).bytes;
  Floats sum(input.size());
  bytes.push_back(std::byte{0});
  EXPECT_EQ(decode_code(*codec_, bytes, sum), Errc::malformed);
  for (std::size_t length = 0; length + 1 < bytes.size(); length += 1 + length / 10) {
    EXPECT_EQ(decode_code(*codec_, std::span(bytes).first(length), sum), Errc::malformed);
  }
  EXPECT_EQ(sum, Floats(input.size())) << "nothing may be added from bytes of a wrong length";
}

// Every flipped bit is either refused or gives finite numbers.
TEST_P(EveryCodec, NeverDecodesToNonFiniteNumbers) {
  const std::vector<std::byte> good = encode(*codec_, draw(laplace_at, kChunk)).bytes;
  Floats sum(kChunk);
  const std::size_t stride = good.size() < 512 ? 1 : 37;
  for (std::size_t bit = 0; bit < 8 * good.size(); bit += stride) {
    std::vector<std::byte> bytes = good;
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
    std::fill(sum.begin(), sum.end(), 0.0F);
    const std::error_code code = decode_code(*codec_, bytes, sum);
    EXPECT_TRUE(!code || code == Errc::malformed);
    EXPECT_TRUE(std::all_of(sum.begin(), sum.end(), [](float x) { return std::isfinite(x); }));
  }
}

TEST_P(EveryCodec, EncodesNothingToNothing) {
  const Encoded result = encode(*codec_, {});
  EXPECT_TRUE(result.bytes.empty());
  EXPECT_EQ(result.stats.input_norm_squared, 0);
}

INSTANTIATE_TEST_SUITE_P(Specs, EveryCodec,
                         testing::Values("dense:fp32", "dense:int8", "dense:int8,block=1",
                                         "dense:int8,block=4096", "topk:k=1", "topk:k=41",
                                         "topk:k=64", "topk:k=4096"),
                         [](const auto& spec) {
                           std::string name = spec.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return name;
                         });

// Sizes, in bits per parameter (algorithms.md 9.2 and 10).
TEST(CodecSize, IsAsComputed) {
  EXPECT_EQ(make_codec("topk:k=64")->encoded_bytes_max(kChunk), 84U);  // 0.164 bits per parameter
  EXPECT_EQ(make_codec("topk:k=128")->encoded_bytes_max(kChunk), 112U + 32 + 4);
  EXPECT_EQ(make_codec("dense:int8,block=128")->encoded_bytes_max(kChunk), 4096U + 64);  // 8.125
  EXPECT_EQ(make_codec("dense:fp32")->encoded_bytes_max(kChunk), 4U * 4096);
}

// The table of relative squared errors, algorithms.md 9.3: over 2^20 samples, printed to two
// figures.
struct TableRow {
  const char* spec;
  double gauss, laplace, student;
};

class ErrorTable : public testing::TestWithParam<TableRow> {};

TEST_P(ErrorTable, HoldsWithinSamplingNoise) {
  constexpr std::size_t kSamples = std::size_t{1} << 20;
  const std::unique_ptr<Codec> codec = make_codec(GetParam().spec);
  const auto check = [&](auto distribution, double expected, double tolerance) {
    const Encoded result = encode(*codec, draw(distribution, kSamples));
    EXPECT_NEAR(relative_error(result.stats) / expected, 1, tolerance);
  };
  check(gaussian_at, GetParam().gauss, 0.02);
  check(laplace_at, GetParam().laplace, 0.04);
  check(student_at, GetParam().student, 0.15);  // heavy tails: a few samples carry much of the sum
}

INSTANTIATE_TEST_SUITE_P(AllRows, ErrorTable,
                         testing::Values(TableRow{"dense:int8,block=64", 3.5e-5, 6.1e-5, 8.1e-5},
                                         TableRow{"dense:int8,block=128", 4.2e-5, 8.0e-5, 1.2e-4},
                                         TableRow{"dense:int8,block=4096", 7.6e-5, 2.0e-4, 7.6e-4},
                                         // 1 - (energy kept) * (1 - error on the kept).
                                         TableRow{"topk:k=64", 1 - .120 * (1 - .0045),
                                                  1 - .215 * (1 - .014), 1 - .282 * (1 - .074)}));

// The same rows apart: the selection's energy, and the quantiser's error on what was kept.
TEST(ErrorTable, HoldsForTwoBitValuesOnTheKept) {
  constexpr std::size_t kSamples = std::size_t{1} << 20;
  const auto check = [&](auto distribution, double kept_energy, double kept_error,
                         double tolerance) {
    const Floats input = draw(distribution, kSamples);
    const Floats decoded = encode(*make_codec("topk:k=64"), input).decoded;
    double kept = 0;
    double error = 0;
    for (std::size_t i = 0; i < kSamples; ++i) {
      if (decoded[i] == 0) continue;
      kept += double{input[i]} * input[i];
      error += std::pow(double{input[i]} - decoded[i], 2);
    }
    EXPECT_NEAR(kept / norm_squared(input) / kept_energy, 1, 0.02);
    EXPECT_NEAR(error / kept / kept_error, 1, tolerance);
  };
  check(gaussian_at, .120, .0045, 0.03);
  check(laplace_at, .215, .014, 0.04);
  check(student_at, .282, .074, 0.15);
}

}  // namespace
}  // namespace causeway::compression
