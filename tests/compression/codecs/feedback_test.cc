#include "compression/codecs/feedback.h"
#include "compression/codecs/make_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/compression/codecs/samples.h"
#include "tests/compression/codecs/specs.h"

namespace causeway::compression {
namespace {

constexpr EncodeKey kFeedbackKey{.seed = 3, .round = 17, .region = 2, .first_element = 40 * kChunk};

Floats decode(const Codec& codec, std::span<const std::byte> bytes, std::size_t count) {
  Floats values(count);
  codec.decode_add(bytes, 1.0F, values);
  return values;
}

class Feedback : public testing::TestWithParam<const char*> {
 protected:
  const std::unique_ptr<Codec> codec_ = make_codec(GetParam());
};

TEST_P(Feedback, EncodesDecayedResidualPlusDeltaAndKeepsTheRest) {
  constexpr float kBeta = 0.95F;
  const Floats delta = draw(gaussian_at, 3 * kChunk, 1);
  const Floats before = draw(gaussian_at, 3 * kChunk, 2);
  Floats p(delta.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    const float decayed = kBeta * before[i];
    p[i] = decayed + delta[i];
  }
  Floats decoded(p.size());
  std::vector<std::byte> expected{std::byte{9}};
  const EncodeStats plain = codec_->encode(p, decoded, expected, kFeedbackKey);

  Floats residual = before;
  std::vector<std::byte> out{std::byte{9}};
  const EncodeStats stats =
      encode_with_feedback(*codec_, delta, kBeta, residual, out, kFeedbackKey);
  EXPECT_EQ(out, expected);
  for (std::size_t i = 0; i < p.size(); ++i) ASSERT_EQ(residual[i], p[i] - decoded[i]) << i;
  EXPECT_EQ(stats.input_norm_squared, plain.input_norm_squared);
  EXPECT_EQ(stats.error_norm_squared, plain.error_norm_squared);
  EXPECT_NEAR(stats.error_norm_squared, norm_squared(residual), 1e-12 * norm_squared(p));
}

TEST_P(Feedback, WritesIntoGivenBytesWhateverTheyWere) {
  if (!codec_->chunk_bytes()) GTEST_SKIP() << "a segment is one unit";
  const Floats delta = draw(gaussian_at, 2 * kChunk, 1);
  Floats residual = draw(gaussian_at, 2 * kChunk, 2);
  Floats expected_residual = residual;
  std::vector<std::byte> expected;
  encode_with_feedback(*codec_, delta, 0.95F, expected_residual, expected, kFeedbackKey);
  std::vector<std::byte> bytes(expected.size(), std::byte{0xEE});
  encode_with_feedback(*codec_, delta, 0.95F, residual, std::span(bytes), kFeedbackKey);
  EXPECT_EQ(bytes, expected);
  EXPECT_EQ(residual, expected_residual);
}

TEST_P(Feedback, AnEmptyResidualIsOneOfZeros) {
  Floats delta = draw(gaussian_at, 3 * kChunk, 1);
  delta[7] = -0.0F;
  Floats residual(delta.size());
  std::vector<std::byte> expected, out;
  const EncodeStats with =
      encode_with_feedback(*codec_, delta, 0, residual, expected, kFeedbackKey);
  const EncodeStats without = encode_with_feedback(*codec_, delta, 0, {}, out, kFeedbackKey);
  EXPECT_EQ(out, expected);
  EXPECT_EQ(without.input_norm_squared, with.input_norm_squared);
  EXPECT_EQ(without.error_norm_squared, with.error_norm_squared);
  delta[2 * kChunk] = std::nanf("");
  EXPECT_THROW(encode_with_feedback(*codec_, delta, 0, {}, out), std::system_error);
  EXPECT_EQ(out, expected);
}

// With beta = 1 nothing is lost: what was sent plus what is held equals what came in.
TEST_P(Feedback, ConservesWork) {
  Floats residual(2 * kChunk);
  std::vector<double> in(residual.size());
  std::vector<double> sent(residual.size());
  double largest = 0;  // |p|, which roundings are relative to
  constexpr std::uint32_t kRounds = 12;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const Floats delta = draw(laplace_at, residual.size(), round, 1e-3);
    std::vector<std::byte> bytes;
    EncodeKey key = kFeedbackKey;
    key.round = round;
    encode_with_feedback(*codec_, delta, 1.0F, residual, bytes, key);
    const Floats q = decode(*codec_, bytes, residual.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      in[i] += delta[i];
      sent[i] += q[i];
      largest = std::fmax(largest, std::fabs(q[i]) + std::fabs(residual[i]));
    }
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    ASSERT_NEAR(sent[i] + residual[i], in[i], kRounds * largest * 0x1p-23) << i;
  }
}

// A round that expired: what was sent comes back, and the next one sends it again. The whole work
// is delivered or in the residual, and none of it twice.
TEST_P(Feedback, AnExpiredPayloadGoesBackToTheResidual) {
  const Floats first = draw(gaussian_at, 2 * kChunk, 1);
  const Floats second = draw(gaussian_at, 2 * kChunk, 2);
  Floats residual(2 * kChunk);
  std::vector<std::byte> expired;
  encode_with_feedback(*codec_, first, 1.0F, residual, expired, kFeedbackKey);
  codec_->decode_add(expired, 1.0F, residual);
  for (std::size_t i = 0; i < residual.size(); ++i) {
    ASSERT_NEAR(residual[i], first[i], 0x1p-20) << i;
  }
  std::vector<std::byte> delivered;
  encode_with_feedback(*codec_, second, 1.0F, residual, delivered, kFeedbackKey);
  const Floats q = decode(*codec_, delivered, residual.size());
  for (std::size_t i = 0; i < residual.size(); ++i) {
    ASSERT_NEAR(q[i] + residual[i], first[i] + second[i], 0x1p-19) << i;
  }
}

TEST_P(Feedback, RefusesWhatIsNotFiniteAndAddsNoByte) {
  const Floats finite = draw(gaussian_at, 3 * kChunk, 1);
  const Floats old = draw(gaussian_at, 3 * kChunk, 2);
  const float huge = std::numeric_limits<float>::max();
  struct Case {
    float delta, residual;
  };
  for (const Case bad : {Case{std::nanf(""), 0}, Case{0, -std::numeric_limits<float>::infinity()},
                         Case{huge, huge}}) {
    Floats delta = finite;
    Floats residual = old;
    delta[2 * kChunk + 5] = bad.delta;
    residual[2 * kChunk + 5] = bad.residual;
    std::vector<std::byte> out{std::byte{9}};
    try {
      encode_with_feedback(*codec_, delta, 1.0F, residual, out);
      FAIL() << "accepted";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), Errc::not_finite);
    }
    EXPECT_EQ(out, std::vector{std::byte{9}});
  }
}

TEST_P(Feedback, KeepsPaddingZero) {
  Floats residual(kChunk);
  for (std::uint64_t round = 0; round < 20; ++round) {
    Floats delta = draw(gaussian_at, kChunk, round);
    std::fill(delta.begin() + 30, delta.end(), 0.0F);
    std::vector<std::byte> bytes;
    encode_with_feedback(*codec_, delta, 0.95F, residual, bytes);
    const Floats q = decode(*codec_, bytes, kChunk);
    for (std::size_t i = 30; i < kChunk; ++i) {
      ASSERT_EQ(q[i], 0.0F);
      ASSERT_EQ(residual[i], 0.0F);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, Feedback, testing::ValuesIn(kSpecs),
                         [](const auto& spec) { return test_name(spec.param); });

}  // namespace
}  // namespace causeway::compression
