// Kernels against plain loops, at sizes with and without a tail. What a whole step exercises is
// left to the other tests.
#include "intra/model/kernels/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace causeway::intra {
namespace {

std::vector<float> wave(std::int64_t count, double phase) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(std::sin(1.3 * static_cast<double>(i * i) + phase)));
  }
  return values;
}

TEST(SmallGemm, MultipliesPlainAndTransposed) {
  constexpr std::int64_t kN = 48, kStride = 50;
  for (const std::int64_t m : {1, 5, 6, 13}) {
    const std::int64_t k = 7;
    const auto a = wave(m * k, 0), b = wave(k * kN, 1), start = wave(m * kStride, 2);
    for (const bool transposed : {false, true}) {
      const StridedMatrix view{a.data(), transposed ? 1 : k, transposed ? m : 1};
      auto c = start;
      small_gemm(m, kN, k, view, b.data(), kN, c.data(), kStride, true);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < kStride; ++j) {
          double expected = start[static_cast<std::size_t>(i * kStride + j)];
          for (std::int64_t step = 0; step < k && j < kN; ++step) {
            expected += static_cast<double>(view.values[i * view.row + step * view.column]) *
                        b[static_cast<std::size_t>(step * kN + j)];
          }
          EXPECT_NEAR(c[static_cast<std::size_t>(i * kStride + j)], expected, 1e-5);
        }
      }
    }
  }
}

TEST(Transpose, MovesEveryElement) {
  constexpr std::int64_t kRows = 7, kColumns = 10;
  const auto in = wave(kRows * kColumns, 0);
  std::vector<float> out(kRows * kColumns);
  transpose(kRows, kColumns, in.data(), kColumns, out.data(), kRows);
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t c = 0; c < kColumns; ++c) EXPECT_EQ(out[c * kRows + r], in[r * kColumns + c]);
  }
}

TEST(CausalSoftmax, IgnoresTheFutureAndIsRepeatable) {
  auto scores = wave(48, 0), again = scores;
  double sum = 0;
  for (std::size_t i = 0; i < 29; ++i) sum += std::exp(scores[i]);
  const float log_sum_exp = causal_softmax(29, 40, scores.data());
  causal_softmax_again(29, 40, log_sum_exp, again.data());
  EXPECT_NEAR(log_sum_exp, std::log(sum), 1e-6);
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_NEAR(scores[i], i < 29 ? std::exp(wave(48, 0)[i]) / sum : 0, 1e-7);
    EXPECT_NEAR(scores[i], again[i], 1e-7);
  }
}

TEST(Softmax, SurvivesLargeScores) {
  std::vector<float> scores(32, -1e30F);
  scores[3] = 1e4F;
  EXPECT_FLOAT_EQ(causal_softmax(20, 20, scores.data()), 1e4F);
  EXPECT_EQ(scores[3], 1.0F);
  EXPECT_EQ(scores[4], 0.0F);
}

TEST(Gelu, MatchesTheTanhFormula) {
  for (const std::int64_t count : {1, 8, 37}) {
    std::vector<float> x = wave(count, 0), y(x.size());
    for (auto& value : x) value *= 6;
    gelu_forward(count, x.data(), y.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double v = x[i];
      const double expected =
          0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      EXPECT_NEAR(y[i], expected, 1e-6 * (1 + std::abs(v)));
    }
  }
}

TEST(Gelu, IsFiniteFarOut) {
  const std::vector<float> x{-1e5F, -100, 100, 1e5F}, ones(4, 1.0F);
  std::vector<float> y(4), dx(4);
  gelu_forward(4, x.data(), y.data());
  gelu_backward(4, x.data(), ones.data(), dx.data());
  EXPECT_THAT(y, testing::Pointwise(testing::FloatNear(1e-30F), {0.0F, 0.0F, 100.0F, 1e5F}));
  EXPECT_THAT(dx, testing::Pointwise(testing::FloatNear(1e-20F), {0.0F, 0.0F, 1.0F, 1.0F}));
}

TEST(CrossEntropy, SurvivesLargeLogits) {
  std::vector<float> logits(21, -1000);
  logits[2] = 1000;
  EXPECT_EQ(cross_entropy(21, logits.data(), 2), 0.0F);
  EXPECT_EQ(cross_entropy(21, logits.data(), 3), 2000.0F);
  EXPECT_EQ(cross_entropy_with_gradient(21, logits.data(), 3, 0.5F), 2000.0F);
  EXPECT_EQ(logits[2], 0.5F);
  EXPECT_EQ(logits[3], -0.5F);
}

TEST(Bf16, RoundsToNearestEven) {
  // 1 + 2^-8 lies between 1 and 1 + 2^-7, and 1 + 3 x 2^-8 between 1 + 2^-7 and 1 + 2^-6.
  const std::vector<float> values{1.0F,      1 + 0x1p-8F, 1 + 3 * 0x1p-8F, -1 - 0x1.1p-8F,
                                  0x1p-140F, -0.0F,       3.4e38F};
  const std::vector<float> expected{
      1.0F, 1.0F, 1 + 0x1p-6F, -1 - 0x1p-7F, 0.0F, -0.0F, std::numeric_limits<float>::infinity()};
  std::vector<float> rounded(values.size());
  round_to_bf16(static_cast<std::int64_t>(values.size()), values.data(), rounded.data());
  EXPECT_EQ(rounded, expected);
}

TEST(Bf16, KeepsNaNAndAgreesWithItsHalfWidthForm) {
  auto values = wave(37, 0);
  values[5] = std::nanf("");
  values[6] = -std::numeric_limits<float>::quiet_NaN();
  std::vector<float> rounded(37);
  std::vector<std::uint16_t> halves(37);
  round_to_bf16(37, values.data(), rounded.data());
  convert_to_bf16(37, values.data(), halves.data());
  for (std::size_t i = 0; i < 37; ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(rounded[i]), std::uint32_t{halves[i]} << 16);
  }
  EXPECT_TRUE(std::isnan(rounded[5]) && std::isnan(rounded[6]));
}

}  // namespace
}  // namespace causeway::intra
