#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "intra/model/model.h"
#include "tests/intra/model/tiny_models.h"
#include "tests/support/openmp.h"

namespace causeway::intra {
namespace {

struct Result {
  float loss = 0;
  std::vector<float> gradients;
};

Result train(Model& model, const Batch& batch, std::span<const float> params, float scale = 1,
             DropoutKey key = {}) {
  Result result;
  result.gradients.resize(params.size());
  result.loss = model.train(batch, key, scale, params, result.gradients, {});
  return result;
}

class ModelBehaviour : public testing::TestWithParam<ModelOptions> {
 protected:
  std::unique_ptr<Model> model_ = make_model(GetParam());
  std::vector<float> params_ = tiny::formula_params(model_->layout());
  tiny::Sequences sequences_{GetParam(), 4, 27};
};

INSTANTIATE_TEST_SUITE_P(Families, ModelBehaviour,
                         testing::Values(tiny::gpt2(), tiny::llama(),
                                         tiny::llama_with_joined_layers()));

TEST_P(ModelBehaviour, EvaluateEqualsTrainingLossWithoutDropout) {
  EXPECT_FLOAT_EQ(model_->evaluate(sequences_.all(), params_),
                  train(*model_, sequences_.all(), params_).loss);
}

TEST_P(ModelBehaviour, TrainingRepeatsBitForBit) {
  const auto first = train(*model_, sequences_.all(), params_);
  const auto second = train(*model_, sequences_.all(), params_);
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(first.gradients, second.gradients);
}

TEST_P(ModelBehaviour, TwoHalvesAccumulateToOneBatch) {
  const auto whole = train(*model_, sequences_.all(), params_);
  std::vector<float> gradients(params_.size());
  float loss = 0;
  for (const std::int64_t first : {0, 2}) {
    loss += 0.5F * model_->train(sequences_.part(first, 2), {}, 0.5F, params_, gradients, {});
  }
  EXPECT_NEAR(loss, whole.loss, 1e-6);
  EXPECT_LT(tiny::relative_difference(gradients, whole.gradients), 1e-6);
}

TEST_P(ModelBehaviour, GradientsAreAddedToWhatIsThere) {
  const auto plain = train(*model_, sequences_.all(), params_);
  std::vector<float> gradients = plain.gradients;
  model_->train(sequences_.all(), {}, -1, params_, gradients, {});
  EXPECT_LT(tiny::norm(gradients), 1e-6 * tiny::norm(plain.gradients));
}

TEST_P(ModelBehaviour, WhatIsClearedCountsForNothingAndTheNextBatchIsAdded) {
  const auto plain = train(*model_, sequences_.part(0, 2), params_);
  const auto next = train(*model_, sequences_.part(2, 2), params_);
  std::vector<float> gradients(params_.size(), 7.0F);
  model_->clear_gradients(gradients);
  model_->train(sequences_.part(0, 2), {}, 1, params_, gradients, {});
  EXPECT_EQ(gradients, plain.gradients);
  model_->train(sequences_.part(2, 2), {}, 1, params_, gradients, {});
  std::vector<float> sum(params_.size());
  std::ranges::transform(plain.gradients, next.gradients, sum.begin(), std::plus<>());
  EXPECT_LT(tiny::relative_difference(gradients, sum), 1e-6);
}

// Of so many words that the logits of all tokens do not fit at once.
TEST(ManyWords, EachBlockOfRowsIsAddedToTheGradientOfTheHead) {
  ModelOptions options = tiny::gpt2();
  options.vocabulary = std::int64_t{1} << 18;
  const auto model = make_model(options);
  const auto params = tiny::formula_params(model->layout());
  const tiny::Sequences sequences(options, 4, 27);
  std::vector<float> added(params.size()), cleared(params.size(), 7.0F);
  model->train(sequences.all(), {}, 1, params, added, {});
  model->clear_gradients(cleared);
  model->train(sequences.all(), {}, 1, params, cleared, {});
  EXPECT_EQ(cleared, added);
}

TEST_P(ModelBehaviour, NextTokenLogitsPredictAsEvaluateDoes) {
  // The loss of a sequence is the mean of -log softmax(logits)[target] over its prefixes.
  const auto sequence = sequences_.part(1, 1);
  double loss = 0;
  for (std::size_t count = 1; count <= sequence.tokens.size(); ++count) {
    const auto logits = model_->next_token_logits(sequence.tokens.first(count), params_);
    ASSERT_EQ(logits.size(), static_cast<std::size_t>(GetParam().vocabulary));
    const double sum =
        std::accumulate(logits.begin(), logits.end(), 0.0,
                        [](double total, float logit) { return total + std::exp(logit); });
    loss += std::log(sum) - logits[static_cast<std::size_t>(sequence.targets[count - 1])];
  }
  EXPECT_NEAR(loss / static_cast<double>(sequence.tokens.size()),
              model_->evaluate(sequence, params_), 1e-6);
}

TEST_P(ModelBehaviour, PaddingOfTheGradientStaysZero) {
  auto gradients = train(*model_, sequences_.all(), params_).gradients;
  for (const auto& tensor : model_->layout().tensors()) {
    std::fill_n(gradients.begin() + static_cast<std::ptrdiff_t>(tensor.offset), tensor.spec.count(),
                0.0F);
  }
  EXPECT_THAT(gradients, testing::Each(0.0F));
}

TEST_P(ModelBehaviour, ReadyCoversEveryTensorOnceAndDescends) {
  const auto& layout = model_->layout();
  std::vector<float> gradients(layout.size());
  std::vector<int> reported(layout.size());
  std::size_t lowest_matrix = layout.size();
  model_->train(sequences_.all(), {}, 1, params_, gradients,
                [&](std::size_t offset, std::size_t count) {
                  for (std::size_t i = offset; i < offset + count; ++i) ++reported[i];
                  if (layout.tensor_at(offset).spec.shape.size() < 2) return;
                  EXPECT_LE(offset + count, lowest_matrix);
                  lowest_matrix = offset;
                });
  for (const auto& tensor : layout.tensors()) {
    const auto times = std::span(reported).subspan(tensor.offset, tensor.spec.count());
    EXPECT_THAT(times, testing::Each(1)) << tensor.spec.name;
  }
}

TEST_P(ModelBehaviour, ReportedGradientsAreFinal) {
  std::vector<float> gradients(params_.size()), when_reported(params_.size());
  model_->train(sequences_.all(), {}, 1, params_, gradients,
                [&](std::size_t offset, std::size_t count) {
                  std::copy_n(gradients.begin() + static_cast<std::ptrdiff_t>(offset), count,
                              when_reported.begin() + static_cast<std::ptrdiff_t>(offset));
                });
  EXPECT_EQ(when_reported, gradients);
}

TEST_P(ModelBehaviour, ShapesMayChangeFromCallToCall) {
  const auto before = train(*model_, sequences_.all(), params_);
  model_->evaluate(sequences_.part(0, 1), params_);
  const tiny::Sequences longer(GetParam(), 5, GetParam().context);
  train(*model_, longer.all(), params_);
  const auto after = train(*model_, sequences_.all(), params_);
  EXPECT_EQ(before.loss, after.loss);
  EXPECT_EQ(before.gradients, after.gradients);
}

TEST_P(ModelBehaviour, ThreadsDoNotChangeTheResult) {
  if (!test::kCanUseOpenMp) GTEST_SKIP() << "OpenMP under TSan";
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const auto one = train(*model_, sequences_.all(), params_);
  omp_set_num_threads(3);
  const auto three = train(*model_, sequences_.all(), params_);
  omp_set_num_threads(threads);
  EXPECT_NEAR(one.loss, three.loss, 1e-6);
  EXPECT_LT(tiny::relative_difference(three.gradients, one.gradients), 1e-6);
}

TEST_P(ModelBehaviour, Bf16IsCloseToFp32) {
  auto options = GetParam();
  options.precision = ModelOptions::Precision::bf16;
  const auto rounded_model = make_model(options);
  const auto exact = train(*model_, sequences_.all(), params_);
  const auto rounded = train(*rounded_model, sequences_.all(), params_);
  // bf16 keeps 8 bits: each operand is off by up to 2^-9 = 0.2 %. Products average those errors,
  // layers add them up.
  EXPECT_NEAR(rounded.loss, exact.loss, 0.01);
  EXPECT_NE(rounded.loss, exact.loss);
  EXPECT_LT(tiny::relative_difference(rounded.gradients, exact.gradients), 0.03);
}

TEST_P(ModelBehaviour, Bf16SeesChangedParams) {
  auto options = GetParam();
  options.precision = ModelOptions::Precision::bf16;
  const auto model = make_model(options);
  const float before = model->evaluate(sequences_.all(), params_);
  for (auto& param : params_) param *= 1.25F;
  model->params_changed();
  EXPECT_EQ(model->evaluate(sequences_.all(), params_),
            make_model(options)->evaluate(sequences_.all(), params_));
  EXPECT_NE(model->evaluate(sequences_.all(), params_), before);
}

TEST_P(ModelBehaviour, Bf16SeesPartsOfTheParamsThatChanged) {
  auto options = GetParam();
  options.precision = ModelOptions::Precision::bf16;
  const auto model = make_model(options);
  model->evaluate(sequences_.all(), params_);
  for (auto& param : params_) param *= 1.25F;
  const std::size_t middle = params_.size() / 3;
  model->params_changed(params_, middle, params_.size());
  const float expected = make_model(options)->evaluate(sequences_.all(), params_);
  EXPECT_NE(model->evaluate(sequences_.all(), params_), expected) << "the rest is not taken yet";
  model->params_changed(params_, 0, middle);
  EXPECT_EQ(model->evaluate(sequences_.all(), params_), expected);
}

TEST(Model, LearnsARepeatedBatch) {
  const auto model = make_model(tiny::gpt2());
  auto params = tiny::formula_params(model->layout());
  const tiny::Sequences sequences(model->options(), 2, 20);
  const float before = model->evaluate(sequences.all(), params);
  for (int step = 0; step < 50; ++step) {
    const auto result = train(*model, sequences.all(), params);
    for (std::size_t i = 0; i < params.size(); ++i) params[i] -= 0.3F * result.gradients[i];
    model->params_changed();
  }
  EXPECT_LT(model->evaluate(sequences.all(), params), before - 1);
}

// With as many key as query heads, whose groups hold one head each, and keys and values repeated
// over a group, the grouped model and the plain one are the same function.
TEST(Model, GroupedQueriesEqualRepeatedKeysAndValues) {
  const auto grouped = make_model(tiny::llama());
  auto plain_options = tiny::llama();
  plain_options.kv_heads = plain_options.heads;
  const auto plain = make_model(plain_options);
  const auto params = tiny::formula_params(grouped->layout());
  std::vector<float> plain_params(plain->layout().size());
  const auto head =
      static_cast<std::size_t>(plain_options.width / plain_options.heads * plain_options.width);
  for (const auto& tensor : plain->layout().tensors()) {
    const auto& source = grouped->layout().find(tensor.spec.name);
    const bool repeated = source.spec.count() != tensor.spec.count();
    for (std::size_t i = 0; i < tensor.spec.count(); ++i) {
      const auto from = repeated ? i / (2 * head) * head + i % head : i;
      plain_params[tensor.offset + i] = params[source.offset + from];
    }
  }
  const tiny::Sequences sequences(plain_options, 2, 26);
  EXPECT_NEAR(plain->evaluate(sequences.all(), plain_params),
              grouped->evaluate(sequences.all(), params), 1e-6);
}

}  // namespace
}  // namespace causeway::intra
