// The negative control of error feedback: a small training problem that top-k alone cannot solve.
#include <gtest/gtest.h>

#include <cmath>

#include "compression/codecs/feedback.h"
#include "compression/codecs/make_codec.h"
#include "tests/compression/codecs/samples.h"

namespace causeway::compression {
namespace {

// Logistic regression with weight decay, four regions, DiLoCo with inner SGD. Every region's labels
// go weakly with the same 96 features, and strongly with 32 others, whose sign differs from one
// region to the next. Those are large in each region's pseudo-gradient and win its selection, but
// cancel in the sum; what all have in common is small.
constexpr std::size_t kCommon = 96, kContrary = 32, kFeatures = kCommon + kContrary;
constexpr std::size_t kRegions = 4, kSamples = 64, kInnerSteps = 5, kRounds = 120;
constexpr float kRate = 0.1F, kDecay = 0.02F;

struct Sample {
  Floats features;
  float label;  // 1 or -1
};
using Data = std::vector<Sample>;

Data data_of(std::size_t region) {
  const float sign = region % 2 == 0 ? 1.0F : -1.0F;
  Data data;
  for (std::uint64_t seed = region * kSamples; seed < (region + 1) * kSamples; ++seed) {
    Sample sample{draw(gaussian_at, kFeatures, seed),
                  uniform(seed, kFeatures) < 0.5 ? -1.0F : 1.0F};
    for (std::size_t i = 0; i < kFeatures; ++i) {
      float& x = sample.features[i];
      x = i < kCommon ? 0.4F * x + 0.1F * sample.label : x + sign * sample.label;
    }
    data.push_back(std::move(sample));
  }
  return data;
}

float margin(const Sample& sample, const Floats& weights) {
  float sum = 0;
  for (std::size_t i = 0; i < kFeatures; ++i) sum += sample.features[i] * weights[i];
  return sum * sample.label;
}

double mean_loss(const std::vector<Data>& regions, const Floats& weights) {
  double loss = 0;
  for (const Data& data : regions) {
    for (const Sample& sample : data) loss += std::log1p(std::exp(-margin(sample, weights)));
  }
  return loss / (kRegions * kSamples) + kDecay / 2 * norm_squared(weights);
}

void inner_step(const Data& data, Floats& weights) {
  Floats gradient(kFeatures);
  for (const Sample& sample : data) {
    const float push = -sample.label / (1 + std::exp(margin(sample, weights))) / kSamples;
    for (std::size_t i = 0; i < kFeatures; ++i) gradient[i] += push * sample.features[i];
  }
  for (std::size_t i = 0; i < kFeatures; ++i) {
    weights[i] -= kRate * (gradient[i] + kDecay * weights[i]);
  }
}

Floats pseudo_gradient(const Data& data, const Floats& anchor) {
  Floats weights = anchor;
  for (std::size_t step = 0; step < kInnerSteps; ++step) inner_step(data, weights);
  Floats delta(anchor.size());
  for (std::size_t i = 0; i < anchor.size(); ++i) delta[i] = anchor[i] - weights[i];
  return delta;
}

double loss_after_training(const char* spec, bool feedback) {
  const auto codec = make_codec(spec);
  std::vector<Data> regions;
  for (std::size_t region = 0; region < kRegions; ++region) regions.push_back(data_of(region));
  std::vector<Floats> residuals(kRegions, Floats(kChunk));
  Floats anchor(kChunk);
  for (std::size_t round = 0; round < kRounds; ++round) {
    Floats sum(kChunk);
    for (std::size_t region = 0; region < kRegions; ++region) {
      const Floats delta = pseudo_gradient(regions[region], anchor);
      if (!feedback) residuals[region].assign(kChunk, 0.0F);
      std::vector<std::byte> bytes;
      encode_with_feedback(*codec, delta, 1.0F, residuals[region], bytes);
      codec->decode_add(bytes, 1.0F / kRegions, sum);
    }
    for (std::size_t i = 0; i < kChunk; ++i) anchor[i] -= sum[i];
  }
  return mean_loss(regions, anchor);
}

// 8 of 128 features per region and round.
TEST(TopKWithoutFeedback, TrainsVisiblyWorseThanWithFeedbackOrDense) {
  const double start = std::log(2.0);
  const double dense = loss_after_training("dense:fp32", false);
  const double with = loss_after_training("topk:k=8", true);
  const double without = loss_after_training("topk:k=8", false);
  EXPECT_LT(dense, 0.3 * start);
  EXPECT_NEAR(with / dense, 1, 0.05);
  EXPECT_GT(without, 0.9 * start) << "hardly anything learned";
}

}  // namespace
}  // namespace causeway::compression
