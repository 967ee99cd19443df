#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <omp.h>

#include <cmath>
#include <string>
#include <vector>

#include "intra/model/kernels/kernels.h"
#include "intra/model/model.h"
#include "tests/intra/model/tiny_models.h"
#include "tests/support/openmp.h"

namespace causeway::intra {
namespace {

std::vector<float> initialised(const ModelOptions& options, std::uint64_t seed) {
  const auto model = make_model(options);
  std::vector<float> params(model->layout().size(), std::nanf(""));
  model->initialise(seed, params);
  return params;
}

std::span<const float> tensor(const Model& model, const std::vector<float>& params,
                              const std::string& name) {
  const auto& placed = model.layout().find(name);
  return std::span(params).subspan(placed.offset, placed.spec.count());
}

double deviation(std::span<const float> values) {
  return tiny::norm(values) / std::sqrt(static_cast<double>(values.size()));
}

TEST(Initialise, FollowsGpt2) {
  ModelOptions options;  // 4 layers, width 128
  const auto model = make_model(options);
  const auto params = initialised(options, 1);
  EXPECT_NEAR(deviation(tensor(*model, params, "transformer.wte.weight")), 0.02, 3e-4);
  EXPECT_NEAR(deviation(tensor(*model, params, "transformer.h.3.attn.c_attn.weight")), 0.02, 3e-4);
  const double residual = 0.02 / std::sqrt(8.0);
  EXPECT_NEAR(deviation(tensor(*model, params, "transformer.h.1.attn.c_proj.weight")), residual,
              2e-4);
  EXPECT_NEAR(deviation(tensor(*model, params, "transformer.h.2.mlp.c_proj.weight")), residual,
              2e-4);
  EXPECT_THAT(tensor(*model, params, "transformer.h.0.ln_1.weight"), testing::Each(1.0F));
  EXPECT_THAT(tensor(*model, params, "transformer.h.0.ln_1.bias"), testing::Each(0.0F));
  EXPECT_THAT(tensor(*model, params, "transformer.h.0.mlp.c_fc.bias"), testing::Each(0.0F));
}

TEST(Initialise, FollowsTheSameRuleForLlama) {
  const auto options = tiny::llama_with_joined_layers();
  const auto model = make_model(options);
  const auto params = initialised(options, 1);
  EXPECT_NEAR(deviation(tensor(*model, params, "model.layers.0.mlp.down_proj.weight")),
              0.02 / std::sqrt(2.0), 6e-4);
  EXPECT_NEAR(deviation(tensor(*model, params, "model.layers.0.self_attn.q_proj.weight")), 0.02,
              9e-4);
  EXPECT_THAT(tensor(*model, params, "model.norm.weight"), testing::Each(1.0F));
}

TEST(Initialise, IsNormal) {
  ModelOptions options;
  const auto model = make_model(options);
  const auto params = initialised(options, 3);
  const auto values = tensor(*model, params, "transformer.h.0.mlp.c_fc.weight");
  double mean = 0, kurtosis = 0;
  for (const float value : values) {
    mean += value / 0.02;
    kurtosis += std::pow(value / 0.02, 4);
  }
  const auto count = static_cast<double>(values.size());  // 65,536
  EXPECT_NEAR(mean / count, 0, 4 / std::sqrt(count));
  EXPECT_NEAR(kurtosis / count, 3, 4 * std::sqrt(96 / count));
}

TEST(Initialise, DependsOnSeedAndNameAlone) {
  const auto small = make_model(tiny::gpt2());
  auto deeper_options = tiny::gpt2();
  deeper_options.layers = 3;
  const auto deeper = make_model(deeper_options);
  const auto first = initialised(tiny::gpt2(), 1), second = initialised(tiny::gpt2(), 2);
  const auto third = initialised(deeper_options, 1);
  EXPECT_EQ(first, initialised(tiny::gpt2(), 1));
  const std::string name = "transformer.h.1.attn.c_attn.weight";
  EXPECT_THAT(tensor(*small, first, name),
              testing::Pointwise(testing::Eq(), tensor(*deeper, third, name)));
  EXPECT_NE(first, second);
  EXPECT_NE(tensor(*small, first, name)[0],
            tensor(*small, first, "transformer.h.0.attn.c_attn.weight")[0]);
}

// Number by number, as the bits were first defined.
struct NormalPair {
  double first, second;
};

double exact_log(double x) {
  int exponent = 0;
  const double m = std::frexp(x, &exponent);
  const double z = (m - 1) / (m + 1);
  double sum = 0;
  for (int term = 35; term >= 1; term -= 2) sum = sum * (z * z) + 1.0 / term;
  return 2 * z * sum + exponent * 0.6931471805599453;
}

NormalPair normal_pair(PhiloxKey key, std::uint64_t index) {
  for (std::uint32_t attempt = 0;; ++attempt) {
    const auto bits = philox(
        {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), attempt, 0},
        key);
    const double u = bits[0] * 0x1p-31 - 1, v = bits[1] * 0x1p-31 - 1;
    const double s = u * u + v * v;
    if (s >= 1 || s == 0) continue;
    const double factor = std::sqrt(-2 * exact_log(s) / s);
    return {u * factor, v * factor};
  }
}

void expect_normal_pairs(PhiloxKey key, std::uint64_t first) {
  constexpr double kDeviation = 0.02;
  for (std::uint64_t at = first; at < first + 16'384; at += kNormalPairs) {
    float drawn[2 * kNormalPairs];
    draw_normal(key, at, kDeviation, drawn);
    for (std::uint64_t i = 0; i < kNormalPairs; ++i) {
      const NormalPair expected = normal_pair(key, at + i);
      ASSERT_EQ(drawn[2 * i], static_cast<float>(kDeviation * expected.first)) << at + i;
      ASSERT_EQ(drawn[2 * i + 1], static_cast<float>(kDeviation * expected.second)) << at + i;
    }
  }
}

TEST(Initialise, HasTheSameBitsOnEveryCpu) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::GetChosenTarget().Update(target);
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{1} << 32})
      expect_normal_pairs(philox_key(mix_bits(7)), first);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(Initialise, DoesNotDependOnThreads) {
  if (!test::kCanUseOpenMp) GTEST_SKIP() << "OpenMP under TSan";
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto one = initialised({}, 1);
  omp_set_num_threads(3);
  EXPECT_EQ(initialised({}, 1), one);
  omp_set_num_threads(threads);
}

}  // namespace
}  // namespace causeway::intra
