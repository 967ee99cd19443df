#include "diloco/maths/outer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"

namespace causeway::diloco {
namespace {

using Floats = std::vector<float>;

// Counter-based: the same numbers on every machine.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Multiples of 2^-10 in [-1, 1): sums, differences and halves of a few of them are exact in fp32.
Floats on_grid(std::size_t count, std::uint64_t seed) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = (static_cast<float>(mix(seed << 32 | i) % 2048) - 1024) / 1024;
  }
  return values;
}

// Full 24-bit significands over several octaves, as real weights have.
Floats off_grid(std::size_t count, std::uint64_t seed) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = mix(seed << 32 | i);
    const float magnitude =
        std::ldexp(static_cast<float>(bits >> 40), -24 - static_cast<int>(bits % 7));
    values[i] = (bits & 8) != 0 ? -magnitude : magnitude;
  }
  return values;
}

float ulp(float x) {
  return std::nextafter(std::fabs(x), std::numeric_limits<float>::infinity()) - std::fabs(x);
}

// Steps 5, 6 and 11 of a round, losslessly encoded: what each region sends, decoded and summed by
// weight.
Floats weighted_sum(const Floats& anchor, const std::vector<Floats>& locals) {
  const auto codec = compression::make_codec("dense:fp32");
  const float weight = 1.0F / static_cast<float>(locals.size());
  Floats sum(anchor.size());
  Floats delta(anchor.size());
  Floats decoded(anchor.size());
  for (const Floats& local : locals) {
    pseudo_gradient(anchor, local, delta);
    std::vector<std::byte> bytes;
    codec->encode(delta, decoded, bytes);
    codec->decode_add(bytes, weight, sum);
  }
  return sum;
}

constexpr OuterOptions kNesterovIdentity{OuterOptions::Kind::nesterov, 1.0F, 0.0F};
constexpr OuterOptions kSgdIdentity{OuterOptions::Kind::sgd, 1.0F, 0.0F};

TEST(PseudoGradient, IsAnchorMinusLocal) {
  Floats delta(2);
  pseudo_gradient(Floats{3, -1}, Floats{1, 1}, delta);
  EXPECT_EQ(delta, (Floats{2, -2}));
}

// The sign test: one region, no momentum, outer rate 1 must land on the local weights.
TEST(OuterStep, OneRegionWithRateOneLandsOnTheLocalWeights) {
  const Floats local = on_grid(8192, 2);
  for (const OuterOptions& options : {kNesterovIdentity, kSgdIdentity}) {
    Floats anchor = on_grid(8192, 1);
    Floats momentum(anchor.size());
    const Floats delta = weighted_sum(anchor, {local});
    outer_step(options, delta, anchor, momentum);
    EXPECT_EQ(anchor, local);
  }
}

TEST(OuterStep, OneRegionLandsWithinTwoUlpOffTheGrid) {
  const Floats before = off_grid(8192, 1);
  const Floats local = off_grid(8192, 2);
  Floats anchor = before;
  outer_step(kSgdIdentity, weighted_sum(before, {local}), anchor, {});
  for (std::size_t i = 0; i < anchor.size(); ++i) {
    const float bound = 2 * ulp(std::max(std::fabs(before[i]), std::fabs(local[i])));
    EXPECT_LE(std::fabs(anchor[i] - local[i]), bound) << i;
  }
}

// arXiv 2401.09135, Algorithm 3, as it is written there: with a buffer of its own.
TEST(OuterStep, DelayedNesterovIsTheAlgorithmWithABuffer) {
  constexpr OuterOptions kOptions{OuterOptions::Kind::delayed_nesterov, 0.7F, 0.9F, 3};
  Floats anchor = off_grid(512, 1), momentum(anchor.size());
  std::vector<double> theta(anchor.begin(), anchor.end()), m(anchor.size()), buffer(anchor.size());
  for (std::uint64_t turn = 0; turn < 12; ++turn) {
    const Floats delta = off_grid(anchor.size(), 10 + turn);
    outer_step(kOptions, delta, anchor, momentum, turn);
    for (std::size_t i = 0; i < delta.size(); ++i) {
      buffer[i] += delta[i];
      theta[i] -= 0.7 * delta[i] / 3;
      if (turn % 3 < 2) continue;
      m[i] = 0.9 * m[i] + buffer[i] / 3;
      theta[i] -= 0.7 * 0.9 * m[i];
      buffer[i] = 0;
    }
    for (std::size_t i = 0; i < delta.size(); ++i) ASSERT_NEAR(anchor[i], theta[i], 1e-5) << turn;
  }
}

TEST(OuterStep, DelayedNesterovOverNRoundsIsOneNesterovStepOnTheirMean) {
  Floats delayed = on_grid(512, 1), once = delayed;
  Floats delayed_momentum = on_grid(512, 2), momentum = delayed_momentum;
  const Floats first = on_grid(512, 3), second = on_grid(512, 4);
  Floats mean(512);
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i] = (first[i] + second[i]) / 2;
  constexpr OuterOptions kDelayed{OuterOptions::Kind::delayed_nesterov, 0.5F, 0.5F, 2};
  outer_step(kDelayed, first, delayed, delayed_momentum, 6);
  outer_step(kDelayed, second, delayed, delayed_momentum, 7);
  outer_step({OuterOptions::Kind::nesterov, 0.5F, 0.5F}, mean, once, momentum);
  EXPECT_EQ(delayed, once);
  EXPECT_EQ(delayed_momentum, momentum);
}

TEST(OuterStep, WithRateOneAndNoMomentumIsTheMeanOfTheRegions) {
  for (const std::size_t regions : {2U, 4U}) {
    Floats anchor = on_grid(8192, 1);
    std::vector<Floats> locals;
    for (std::size_t r = 0; r < regions; ++r) locals.push_back(on_grid(8192, 10 + r));
    outer_step(kSgdIdentity, weighted_sum(anchor, locals), anchor, {});
    for (std::size_t i = 0; i < anchor.size(); ++i) {
      float sum = 0;
      for (const Floats& local : locals) sum += local[i];
      EXPECT_EQ(anchor[i], sum / static_cast<float>(regions)) << i;
    }
  }
}

TEST(OuterStep, WithOneInnerSgdStepIsOneLargeBatchStep) {
  const Floats start = on_grid(8192, 1);
  constexpr float kInnerRate = 0.25F;
  const std::vector<Floats> gradients = {on_grid(8192, 20), on_grid(8192, 21)};
  std::vector<Floats> locals(2, start);
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t i = 0; i < start.size(); ++i) locals[r][i] -= kInnerRate * gradients[r][i];
  }
  Floats anchor = start;
  outer_step(kSgdIdentity, weighted_sum(anchor, locals), anchor, {});
  for (std::size_t i = 0; i < start.size(); ++i) {
    const float mean_gradient = (gradients[0][i] + gradients[1][i]) / 2;
    EXPECT_EQ(anchor[i], start[i] - kInnerRate * mean_gradient) << i;
  }
}

// PyTorch's SGD(lr=0.5, momentum=0.5, nesterov=True) from weights (1, -2) with gradients (0.5, -1),
// then (0.25, 0.5).
//   step 1: buf = (0.5, -1);      update = g + 0.5 buf = (0.75, -1.5);     weights = (0.625, -1.25)
//   step 2: buf = (0.5, 0);       update = (0.5, 0.5);                     weights = (0.375, -1.5)
TEST(OuterStep, FollowsTheNesterovFormulaOfPyTorch) {
  const OuterOptions options{OuterOptions::Kind::nesterov, 0.5F, 0.5F};
  Floats anchor = {1, -2};
  Floats momentum = {0, 0};
  outer_step(options, Floats{0.5F, -1}, anchor, momentum);
  EXPECT_EQ(momentum, (Floats{0.5F, -1}));
  EXPECT_EQ(anchor, (Floats{0.625F, -1.25F}));
  outer_step(options, Floats{0.25F, 0.5F}, anchor, momentum);
  EXPECT_EQ(momentum, (Floats{0.5F, 0}));
  EXPECT_EQ(anchor, (Floats{0.375F, -1.5F}));
}

// First-step gain eta (1 + mu), steady gain eta / (1 - mu) per unit of a constant delta.
TEST(OuterStep, HasTheGainsOfNesterovMomentum) {
  const OuterOptions options{OuterOptions::Kind::nesterov, 0.7F, 0.9F};
  Floats anchor = {0};
  Floats momentum = {0};
  outer_step(options, Floats{1}, anchor, momentum);
  EXPECT_NEAR(anchor[0], -1.33F, 1e-6F);
  float previous = 0;
  for (int round = 0; round < 300; ++round) {
    previous = anchor[0];
    outer_step(options, Floats{1}, anchor, momentum);
  }
  EXPECT_NEAR(previous - anchor[0], 7.0F, 1e-3F);
}

TEST(OuterStep, LeavesMomentumAloneUnderSgd) {
  Floats anchor = {1};
  Floats momentum = {42};
  outer_step({OuterOptions::Kind::sgd, 0.5F, 0.9F}, Floats{1}, anchor, momentum);
  EXPECT_EQ(anchor, Floats{0.5F});
  EXPECT_EQ(momentum, Floats{42});
}

TEST(OuterStep, KeepsPaddingZero) {
  Floats anchor(8);
  Floats momentum(8);
  outer_step({}, Floats(8), anchor, momentum);
  EXPECT_EQ(anchor, Floats(8));
}

}  // namespace
}  // namespace causeway::diloco
