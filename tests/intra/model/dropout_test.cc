#include <gtest/gtest.h>
#include <omp.h>

#include <vector>

#include "intra/model/kernels/kernels.h"
#include "intra/model/model.h"
#include "tests/intra/model/tiny_models.h"
#include "tests/support/openmp.h"

namespace causeway::intra {
namespace {

ModelOptions with_dropout(ModelOptions options) {
  options.dropout = 0.25F;
  return options;
}

struct Step {
  double loss = 0;
  std::vector<float> gradients;
};

// One step of four sequences, computed by `ranks` ranks with a share each.
Step step_on(Model& model, const std::vector<float>& params, std::int64_t ranks, DropoutKey key) {
  const tiny::Sequences sequences(model.options(), 4, 27);
  Step step;
  step.gradients.resize(params.size());
  const auto share = 4 / ranks;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    key.first_sample = static_cast<std::uint64_t>(rank * share);
    const float scale = 1.0F / static_cast<float>(ranks);
    step.loss += scale * model.train(sequences.part(rank * share, share), key, scale, params,
                                     step.gradients, {});
  }
  return step;
}

class ModelDropout : public testing::TestWithParam<ModelOptions> {
 protected:
  std::unique_ptr<Model> model_ = make_model(with_dropout(GetParam()));
  std::vector<float> params_ = tiny::formula_params(model_->layout());
  DropoutKey key_{.seed = 11, .step = 2, .first_sample = 0};
};

INSTANTIATE_TEST_SUITE_P(Families, ModelDropout, testing::Values(tiny::gpt2(), tiny::llama()));

TEST_P(ModelDropout, DoesNotDependOnHowSamplesAreSplit) {
  const auto whole = step_on(*model_, params_, 1, key_);
  for (const std::int64_t ranks : {2, 4}) {
    const auto split = step_on(*model_, params_, ranks, key_);
    EXPECT_NEAR(split.loss, whole.loss, 1e-6);
    EXPECT_LT(tiny::relative_difference(split.gradients, whole.gradients), 1e-6);
  }
}

TEST_P(ModelDropout, DoesNotDependOnThreads) {
  if (!test::kCanUseOpenMp) GTEST_SKIP() << "OpenMP under TSan";
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto one = step_on(*model_, params_, 1, key_);
  omp_set_num_threads(3);
  const auto three = step_on(*model_, params_, 1, key_);
  omp_set_num_threads(threads);
  EXPECT_NEAR(one.loss, three.loss, 1e-6);
}

TEST_P(ModelDropout, DependsOnSeedAndStep) {
  const auto loss = step_on(*model_, params_, 1, key_).loss;
  auto other_seed = key_, other_step = key_;
  ++other_seed.seed;
  ++other_step.step;
  EXPECT_NE(step_on(*model_, params_, 1, other_seed).loss, loss);
  EXPECT_NE(step_on(*model_, params_, 1, other_step).loss, loss);
}

TEST_P(ModelDropout, DoesNotTouchEvaluation) {
  const tiny::Sequences sequences(GetParam(), 2, 27);
  EXPECT_EQ(model_->evaluate(sequences.all(), params_),
            make_model(GetParam())->evaluate(sequences.all(), params_));
}

// 128 bits of Philox4x32-10 from its authors' known-answer tests.
TEST(Philox, MatchesItsKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr auto kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(DropoutMask, EqualsScalarPhilox) {
  const DropoutMask mask{.key = {7, 9}, .site = 5, .probability = 0.4F};
  const std::uint64_t sample = 0x123456789A;
  std::vector<float> values(200, 1.0F);
  apply_dropout(mask, sample, 3 * kDropoutTile, 200, values.data());
  for (std::uint32_t i = 0; i < 200; ++i) {
    const std::uint32_t tile = 3 + i / 64, element = i % 64;
    const auto words = philox({tile * 16 + element % 16, 5, 0x3456789A, 0x12}, mask.key);
    const bool kept = (words[element / 16] >> 8) >= static_cast<std::uint32_t>(0.4F * (1 << 24));
    EXPECT_FLOAT_EQ(values[i], kept ? 1 / 0.6F : 0.0F) << i;
  }
}

TEST(DropoutMask, DropsTheAskedFraction) {
  const DropoutMask mask{.key = {1, 2}, .site = 3, .probability = 0.1F};
  std::vector<float> values(100'000, 1.0F);
  apply_dropout(mask, 0, 0, 100'000, values.data());
  const auto dropped = std::count(values.begin(), values.end(), 0.0F);
  EXPECT_NEAR(static_cast<double>(dropped), 10'000, 4 * 95);  // four standard deviations
}

}  // namespace
}  // namespace causeway::intra
