#include "compression/feedback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/compression/samples.h"

namespace causeway::compression {
namespace {

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
  const EncodeStats plain = codec_->encode(p, decoded, expected);

  Floats residual = before;
  std::vector<std::byte> out{std::byte{9}};
  const EncodeStats stats = encode_with_feedback(*codec_, delta, kBeta, residual, out);
  EXPECT_EQ(out, expected);
  for (std::size_t i = 0; i < p.size(); ++i) ASSERT_EQ(residual[i], p[i] - decoded[i]) << i;
  EXPECT_EQ(stats.input_norm_squared, plain.input_norm_squared);
  EXPECT_EQ(stats.error_norm_squared, plain.error_norm_squared);
  EXPECT_NEAR(stats.error_norm_squared, norm_squared(residual), 1e-12 * norm_squared(p));
}

// With beta = 1 nothing is lost: what was sent plus what is held equals what came in.
TEST_P(Feedback, ConservesWork) {
  Floats residual(2 * kChunk);
  std::vector<double> in(residual.size());
  std::vector<double> sent(residual.size());
  for (std::uint64_t round = 0; round < 30; ++round) {
    const Floats delta = draw(laplace_at, residual.size(), round, 1e-3);
    std::vector<std::byte> bytes;
    encode_with_feedback(*codec_, delta, 1.0F, residual, bytes);
    const Floats q = decode(*codec_, bytes, residual.size());
    for (std::size_t i = 0; i < in.size(); ++i) {
      in[i] += delta[i];
      sent[i] += q[i];
    }
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    ASSERT_NEAR(sent[i] + residual[i], in[i], 30 * 0.1 * 0x1p-24) << i;  // |p| stays below 0.1
  }
}

TEST_P(Feedback, AnExpiredPayloadGoesBackToTheResidual) {
  const Floats delta = draw(gaussian_at, 2 * kChunk, 1);
  Floats residual = draw(gaussian_at, 2 * kChunk, 2);
  Floats p(delta.size());
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = residual[i] + delta[i];
  std::vector<std::byte> bytes;
  encode_with_feedback(*codec_, delta, 1.0F, residual, bytes);
  return_to_residual(*codec_, bytes, residual);
  for (std::size_t i = 0; i < p.size(); ++i) {
    ASSERT_NEAR(residual[i], p[i], 0x1p-22 * std::fmax(1.0F, std::fabs(p[i]))) << i;
  }
}

TEST_P(Feedback, LeavesEverythingAsItWasWhenNotFinite) {
  const Floats finite = draw(gaussian_at, 3 * kChunk, 1);
  const Floats before = draw(gaussian_at, 3 * kChunk, 2);
  const float huge = std::numeric_limits<float>::max();
  struct Case {
    float delta, residual;
  };
  for (const Case bad : {Case{std::nanf(""), 0}, Case{0, -std::numeric_limits<float>::infinity()},
                         Case{huge, huge}}) {
    Floats delta = finite;
    Floats residual = before;
    delta[2 * kChunk + 5] = bad.delta;
    residual[2 * kChunk + 5] = bad.residual;
    const Floats kept = residual;
    std::vector<std::byte> out{std::byte{9}};
    try {
      encode_with_feedback(*codec_, delta, 1.0F, residual, out);
      FAIL() << "accepted";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), Errc::not_finite);
    }
    EXPECT_EQ(residual, kept);
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

INSTANTIATE_TEST_SUITE_P(Specs, Feedback,
                         testing::Values("dense:fp32", "dense:int8,block=128", "topk:k=64"),
                         [](const auto& spec) {
                           const std::string name = spec.param;
                           return name.substr(0, name.find(':')) + std::to_string(spec.index);
                         });

// Two regions minimise |x - 1|^2 / 2 over 1,024 coordinates. On 64 others their deltas are large
// and of opposite sign, as those of regions with different data are: they cancel in the sum but win
// every selection. Returns |x - 1|^2 / |1|^2 in the end.
double toy_quadratic(bool feedback) {
  constexpr std::size_t kCount = 1024;
  constexpr std::size_t kNoisy = 64;
  const std::unique_ptr<Codec> codec = make_codec("topk:k=64");
  Floats x(kChunk);
  Floats residuals[2] = {Floats(kChunk), Floats(kChunk)};
  for (std::uint64_t round = 0; round < 600; ++round) {
    Floats sum(kChunk);
    for (std::size_t region = 0; region < 2; ++region) {
      Floats delta(kChunk);
      for (std::size_t i = 0; i < kCount; ++i) delta[i] = 0.01F * (x[i] - 1);
      for (std::size_t i = 0; i < kNoisy; ++i) {
        const auto noise = static_cast<float>(gaussian_at(round, i));
        delta[kCount + i] = region == 0 ? noise : -noise;
      }
      if (!feedback) residuals[region].assign(kChunk, 0.0F);
      std::vector<std::byte> bytes;
      encode_with_feedback(*codec, delta, 1.0F, residuals[region], bytes);
      codec->decode_add(bytes, 0.5F, sum);
    }
    for (std::size_t i = 0; i < kChunk; ++i) x[i] -= sum[i];
  }
  double distance = 0;
  for (std::size_t i = 0; i < kCount; ++i) distance += std::pow(x[i] - 1.0, 2);
  return distance / kCount;
}

TEST(TopKWithoutFeedback, LosesWhatTheSelectionNeverPicks) {
  const double with = toy_quadratic(true);
  const double without = toy_quadratic(false);
  EXPECT_LT(with, 0.1);
  EXPECT_GT(without, 0.5);
}

}  // namespace
}  // namespace causeway::compression
