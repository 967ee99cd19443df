// What every codec must do, whatever it is composed of.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"
#include "tests/compression/codecs/encoded.h"
#include "tests/compression/codecs/samples.h"
#include "tests/compression/codecs/specs.h"

namespace causeway::compression {
namespace {

constexpr EncodeKey kKey{.seed = 3, .round = 17, .region = 2, .first_element = 40 * kChunk};

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
  bool is(const char* part) const { return codec_->spec().find(part) != std::string::npos; }

  const std::unique_ptr<Codec> codec_ = make_codec(GetParam());
};

TEST_P(EveryCodec, HasASpecThatMakesItAgain) {
  const std::string spec = codec_->spec();
  EXPECT_EQ(make_codec(spec)->spec(), spec);
  EXPECT_EQ(spec.rfind(std::string(GetParam()).substr(0, spec.find(':')), 0), 0U);
}

TEST_P(EveryCodec, DecodesToWhatTheEncoderSaid) {
  const Floats input = draw(student_at, 5 * kChunk);
  const Encoded result = encode(*codec_, input, kKey);
  Floats sum = draw(gaussian_at, input.size(), 8);
  const Floats before = sum;
  constexpr float kWeight = 0.3F;
  codec_->decode_add(result.bytes, kWeight, sum);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const float product = kWeight * result.decoded[i];
    ASSERT_EQ(sum[i], before[i] + product) << i;
  }
}

TEST_P(EveryCodec, AddsWeightToTheElementsThatItHolds) {
  const Encoded result = encode(*codec_, draw(student_at, 5 * kChunk), kKey);
  Floats weights(result.decoded.size(), 3.0F);
  codec_->add_weight(result.bytes, 0.5F, weights);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (codec_->is_sparse()) {
      ASSERT_TRUE(weights[i] == 3.5F || (weights[i] == 3.0F && result.decoded[i] == 0)) << i;
    } else {
      ASSERT_EQ(weights[i], 3.5F) << i;
    }
  }
  weights.resize(weights.size() + kChunk);
  EXPECT_THROW(codec_->add_weight(result.bytes, 0.5F, weights), std::system_error);
}

TEST_P(EveryCodec, BoundsItsNorm) {
  for (const double scale : {1e-30, 1.0, 1e30}) {
    const Encoded result = encode(*codec_, draw(student_at, 5 * kChunk, 4, scale), kKey);
    const double norm = norm_squared(result.decoded);
    const double bound = codec_->norm_squared_bound(result.bytes, 5 * kChunk);
    EXPECT_GE(bound, norm * (1 - 1e-6)) << scale;
    const bool exact = is("fp32") || is("fp16") || is("bf16");
    EXPECT_LE(bound, exact ? norm * (1 + 1e-6) : kChunk * norm) << scale;
    EXPECT_THROW(codec_->norm_squared_bound(result.bytes, 6 * kChunk), std::system_error);
  }
  const Encoded zero = encode(*codec_, Floats(5 * kChunk, 0.0F), kKey);
  EXPECT_EQ(codec_->norm_squared_bound(zero.bytes, 5 * kChunk), 0);
}

TEST_P(EveryCodec, IsOfTheSizeItSays) {
  for (const std::size_t chunks : {1U, 2U, 5U}) {
    const Encoded result = encode(*codec_, draw(student_at, chunks * kChunk), kKey);
    const std::size_t most = codec_->encoded_bytes_max(chunks * kChunk);
    EXPECT_LE(result.bytes.size(), most);
    if (const auto each = codec_->chunk_bytes()) {
      EXPECT_EQ(result.bytes.size(), chunks * *each);
      EXPECT_EQ(most, chunks * *each);
    }
  }
}

TEST_P(EveryCodec, ReportsNormsOfInputAndError) {
  const Floats input = draw(laplace_at, 3 * kChunk);
  const Encoded result = encode(*codec_, input, kKey);
  Floats error(input.size());
  for (std::size_t i = 0; i < input.size(); ++i) error[i] = input[i] - result.decoded[i];
  EXPECT_NEAR(result.stats.input_norm_squared / norm_squared(input), 1, 1e-12);
  EXPECT_NEAR(result.stats.error_norm_squared, norm_squared(error), 1e-12 * norm_squared(input));
  EXPECT_EQ(result.stats.relative_squared_error(),
            result.stats.error_norm_squared / result.stats.input_norm_squared);
  // Stochastic rounding on a coarse grid may be off by more than the input is long.
  if (!is("stochastic")) {
    EXPECT_LT(result.stats.relative_squared_error(), 1);
  }
}

TEST_P(EveryCodec, EncodesChunksAloneIfItSaysSo) {
  if (!codec_->chunk_bytes()) GTEST_SKIP() << "a segment is one unit";
  const Floats input = draw(gaussian_at, 7 * kChunk);
  const Encoded whole = encode(*codec_, input, kKey);
  for (const std::size_t step : {1U, 2U, 5U}) {
    std::vector<std::byte> joined;
    for (std::size_t begin = 0; begin < input.size(); begin += step * kChunk) {
      const std::size_t count = std::min(step * kChunk, input.size() - begin);
      EncodeKey key = kKey;
      key.first_element += begin;
      Floats decoded(count);
      codec_->encode(std::span(input).subspan(begin, count), decoded, joined, key);
    }
    EXPECT_EQ(joined, whole.bytes) << step;
  }
}

// One object, several threads, each segment by whichever comes first.
TEST_P(EveryCodec, GivesTheSameBytesFromAnyThread) {
  constexpr std::size_t kSegments = 8;
  std::vector<Floats> inputs;
  std::vector<Encoded> expected;
  for (std::size_t i = 0; i < kSegments; ++i) {
    inputs.push_back(draw(laplace_at, 2 * kChunk, i));
    expected.push_back(encode(*codec_, inputs[i], kKey));
  }
  std::vector<Encoded> results(kSegments);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < kSegments; i = next++) {
      results[i] = encode(*codec_, inputs[i], kKey);
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(work);
  threads.clear();
  for (std::size_t i = 0; i < kSegments; ++i) EXPECT_EQ(results[i].bytes, expected[i].bytes) << i;
}

TEST_P(EveryCodec, IsUnchangedByScalingWithPowersOfTwo) {
  const Floats input = draw(laplace_at, 2 * kChunk);
  const Encoded plain = encode(*codec_, input, kKey);
  for (const int exponent : {-40, -20, -3, 7, 40}) {
    Floats scaled = input;
    for (float& x : scaled) x = std::ldexp(x, exponent);
    const Encoded result = encode(*codec_, scaled, kKey);
    EXPECT_EQ(result.stats.relative_squared_error(), plain.stats.relative_squared_error())
        << exponent;
    for (std::size_t i = 0; i < input.size(); ++i) {
      ASSERT_EQ(result.decoded[i], std::ldexp(plain.decoded[i], exponent)) << i;
    }
  }
}

TEST_P(EveryCodec, KeepsZerosExactlyZero) {
  Floats input = draw(gaussian_at, 3 * kChunk);
  std::fill(input.begin() + 20, input.begin() + kChunk, 0.0F);  // padding after 20 numbers
  for (std::size_t i = 2 * kChunk; i < input.size(); i += 3) input[i] = i % 2 == 0 ? 0.0F : -0.0F;
  const Encoded result = encode(*codec_, input, kKey);
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (input[i] != 0) continue;
    ASSERT_EQ(result.decoded[i], 0.0F) << i;
    ASSERT_TRUE(std::signbit(input[i]) || !std::signbit(result.decoded[i])) << i;
  }
}

TEST_P(EveryCodec, EncodesZerosAsZerosAlone) {
  const Floats input(2 * kChunk);
  const Encoded result = encode(*codec_, input, kKey);
  EXPECT_EQ(result.decoded, input);
  EXPECT_EQ(result.stats.error_norm_squared, 0);
  EXPECT_EQ(result.stats.relative_squared_error(), 0);
  Floats sum(input.size(), 3.0F);
  codec_->decode_add(result.bytes, 1.0F, sum);
  EXPECT_EQ(sum, Floats(input.size(), 3.0F));
}

TEST_P(EveryCodec, KeepsTheOnlyNonZeroOfAChunk) {
  const double tolerance = is("stochastic") ? 0.5 : 0.01;
  for (const std::size_t at : {0U, 1234U, 4095U}) {
    for (const float value : {1.0F, -0x1p-120F, 0x1p120F}) {
      Floats input(kChunk);
      input[at] = value;
      const Floats decoded = encode(*codec_, input, kKey).decoded;
      EXPECT_NEAR(decoded[at] / value, 1, tolerance);
      EXPECT_EQ(std::count(decoded.begin(), decoded.end(), 0.0F), kChunk - 1);
    }
  }
}

TEST_P(EveryCodec, StaysFiniteAtTheEndsOfTheRange) {
  for (const float magnitude : {kLargest, 0x1.fp127F, 0x1p-126F, 100 * kSmallest, kSmallest}) {
    Floats input = draw(gaussian_at, kChunk);
    for (float& x : input) x = x < 0 ? -magnitude : magnitude / 3;
    const Encoded result = encode(*codec_, input, kKey);
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
  std::vector<std::byte> bytes = encode(*codec_, input, kKey).bytes;
  Floats sum(input.size());
  bytes.push_back(std::byte{0});
  EXPECT_EQ(decode_code(*codec_, bytes, sum), Errc::malformed);
  for (std::size_t length = 0; length + 1 < bytes.size(); length += 1 + length / 10) {
    EXPECT_EQ(decode_code(*codec_, std::span(bytes).first(length), sum), Errc::malformed);
  }
  EXPECT_EQ(sum, Floats(input.size())) << "nothing may be added from bytes of a wrong length";
}

// A flipped bit is refused, or means other numbers, which are finite: no two byte strings for one
// meaning.
TEST_P(EveryCodec, RefusesAFlippedBitOrReadsOtherFiniteNumbers) {
  const Encoded good = encode(*codec_, draw(laplace_at, kChunk), kKey);
  Floats sum(kChunk);
  const std::size_t stride = good.bytes.size() < 256 ? 1 : 1 + good.bytes.size() / 32 * 2;
  for (std::size_t bit = 0; bit < 8 * good.bytes.size(); bit += stride) {
    std::vector<std::byte> bytes = good.bytes;
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
    std::fill(sum.begin(), sum.end(), 0.0F);
    const std::error_code code = decode_code(*codec_, bytes, sum);
    EXPECT_TRUE(!code || code == Errc::malformed);
    EXPECT_TRUE(std::all_of(sum.begin(), sum.end(), [](float x) { return std::isfinite(x); }));
    EXPECT_TRUE(code || sum != good.decoded) << bit;
  }
}

TEST_P(EveryCodec, SurvivesAnyBytes) {
  const std::size_t most = codec_->encoded_bytes_max(2 * kChunk);
  Floats sum(2 * kChunk);
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    std::vector<std::byte> bytes(codec_->chunk_bytes() ? most : mix(seed) % (most + 1));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      // Half the strings are mostly zeros, which decoders let further in.
      const std::uint64_t noise = mix(seed << 32 | i);
      bytes[i] = static_cast<std::byte>(seed % 2 == 0 || noise % 16 == 0 ? noise >> 8 : 0);
    }
    std::fill(sum.begin(), sum.end(), 0.0F);
    const std::error_code code = decode_code(*codec_, bytes, sum);
    EXPECT_TRUE(!code || code == Errc::malformed);
    EXPECT_TRUE(std::all_of(sum.begin(), sum.end(), [](float x) { return std::isfinite(x); }));
  }
}

TEST_P(EveryCodec, EncodesNothingToNothing) {
  const Encoded result = encode(*codec_, {}, kKey);
  EXPECT_TRUE(result.bytes.empty());
  EXPECT_EQ(result.stats.input_norm_squared, 0);
  EXPECT_EQ(codec_->encoded_bytes_max(0), 0U);
  Floats none;
  EXPECT_FALSE(decode_code(*codec_, {}, none));
  EXPECT_EQ(decode_code(*codec_, std::vector<std::byte>(1), none), Errc::malformed);
}

TEST_P(EveryCodec, UsesTheKeyOnlyForChance) {
  const Floats input = draw(gaussian_at, 2 * kChunk);
  const std::vector<std::byte> bytes = encode(*codec_, input, kKey).bytes;
  EXPECT_EQ(encode(*codec_, input, kKey).bytes, bytes);
  for (const auto& other : {EncodeKey{.seed = 3, .round = 18, .region = 2, .first_element = 0},
                            EncodeKey{.seed = 3, .round = 17, .region = 2, .first_element = 0}}) {
    EXPECT_EQ(encode(*codec_, input, other).bytes != bytes, is("stochastic"));
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, EveryCodec, testing::ValuesIn(kSpecs),
                         [](const auto& spec) { return test_name(spec.param); });

}  // namespace
}  // namespace causeway::compression
