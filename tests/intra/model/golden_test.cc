// Against numbers that an independent PyTorch program made in double precision.
#include "tests/golden/model_golden.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "intra/base/adamw.h"
#include "intra/model/model.h"
#include "tests/intra/model/tiny_models.h"

namespace causeway::intra {
namespace {

using model_golden::Case;

ModelOptions options_of(const Case& golden, ModelOptions::Family family) {
  return {.family = family,
          .vocabulary = golden.vocabulary,
          .context = golden.context,
          .layers = golden.layers,
          .width = golden.width,
          .heads = golden.heads,
          .kv_heads = golden.kv_heads,
          .hidden = golden.hidden,
          .rope_theta = golden.rope_theta,
          .norm_epsilon = golden.norm_epsilon};
}

tiny::Sequences batch_of_step(const ModelOptions& options, int step) {
  return {options, model_golden::kBatch, model_golden::kLength, 5 * step};
}

// fp32 sums of a few thousand terms: 2^-24 times their square root leaves five digits of a tensor's
// norm. An element may be far smaller than the norm, and is as wrong as the others.
constexpr double kTolerance = 2e-5;

void expect_gradient(const model_golden::Gradient& golden, std::span<const float> gradient) {
  SCOPED_TRACE(golden.name);
  const double tolerance = kTolerance * golden.norm + 1e-7;
  double projection = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    projection += gradient[i] * std::sin(static_cast<double>(i) + 1);
  }
  EXPECT_NEAR(tiny::norm(gradient), golden.norm, tolerance);
  EXPECT_NEAR(projection, golden.projection, tolerance);
  for (std::size_t i = 0; i < model_golden::kSamples; ++i) {
    const auto at = i * (gradient.size() - 1) / (model_golden::kSamples - 1);
    EXPECT_NEAR(gradient[at], golden.samples[i], tolerance) << "element " << at;
  }
}

void expect_loss_and_gradients(const Case& golden, ModelOptions::Family family) {
  const auto model = make_model(options_of(golden, family));
  const auto params = tiny::formula_params(model->layout());
  std::vector<float> gradients(params.size());
  const auto sequences = batch_of_step(model->options(), 0);
  EXPECT_NEAR(model->train(sequences.all(), {}, 1, params, gradients, {}), golden.loss, 1e-6);
  ASSERT_EQ(model->layout().tensors().size(), golden.gradient_count);
  for (std::size_t i = 0; i < golden.gradient_count; ++i) {
    const auto& tensor = model->layout().find(golden.gradients[i].name);
    expect_gradient(golden.gradients[i],
                    std::span(gradients).subspan(tensor.offset, tensor.spec.count()));
  }
}

void expect_adamw_losses(const Case& golden, ModelOptions::Family family) {
  const auto model = make_model(options_of(golden, family));
  auto params = tiny::formula_params(model->layout());
  InnerOptions inner;
  inner.beta1 = model_golden::kBeta1;
  inner.beta2 = model_golden::kBeta2;
  inner.epsilon = model_golden::kEpsilon;
  inner.weight_decay = model_golden::kWeightDecay;
  AdamW optimizer(inner, model->layout());
  for (int step = 0; step < model_golden::kSteps; ++step) {
    std::vector<float> gradients(params.size());
    const auto sequences = batch_of_step(model->options(), step);
    const float loss = model->train(sequences.all(), {}, 1, params, gradients, {});
    // Adam divides by the gradient's size, which makes rounding errors of tiny gradients into
    // errors of the learning rate's size.
    EXPECT_NEAR(loss, golden.adamw_losses[step], 2e-4) << "step " << step;
    optimizer.step(static_cast<std::uint64_t>(step), model_golden::kLr, 1, params, gradients);
    model->params_changed();
  }
}

TEST(ModelGolden, Gpt2LossAndEveryGradientMatchPyTorch) {
  expect_loss_and_gradients(model_golden::kGpt2, ModelOptions::Family::gpt2);
}

TEST(ModelGolden, LlamaLossAndEveryGradientMatchPyTorch) {
  expect_loss_and_gradients(model_golden::kLlama, ModelOptions::Family::llama);
}

TEST(ModelGolden, Gpt2LossesOfAdamWStepsMatchPyTorch) {
  expect_adamw_losses(model_golden::kGpt2, ModelOptions::Family::gpt2);
}

TEST(ModelGolden, LlamaLossesOfAdamWStepsMatchPyTorch) {
  expect_adamw_losses(model_golden::kLlama, ModelOptions::Family::llama);
}

}  // namespace
}  // namespace causeway::intra
