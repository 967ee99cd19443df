// The device's training step, played on the CPU, against the CPU's own model: every tensor. In fp32
// only the order of sums differs. In bf16 the device also keeps activations and the residual stream
// in bf16, which the CPU keeps in fp32: tolerances are of that rounding, 2^-9 an element.

#include <gtest/gtest.h>

#include "intra/cuda/step/device_transformer.h"
#include "tests/intra/cuda/models.h"
#include "tests/intra/cuda/serial_backend.h"

namespace causeway::intra::cuda {
namespace {

// In bf16 from initial weights: those of the formula, ten times as large, amplify every rounding.
struct Reference {
  explicit Reference(const ModelOptions& options)
      : model(make_model(options)),
        params(tiny::formula_params(model->layout())),
        gradients(model->layout().size()) {
    if (options.precision == ModelOptions::Precision::bf16) model->initialise(1, params);
  }
  std::unique_ptr<Model> model;
  std::vector<float> params, gradients;
};

constexpr std::int64_t kBatch = 2;
constexpr DropoutKey kKey{.seed = 7, .step = 3, .first_sample = 5};

class OnTheCpu : public testing::TestWithParam<Case> {
 protected:
  // Two micro-batches of which the second is shorter.
  void compare(bool backwards, double loss_tolerance, double gradient_tolerance) {
    Reference reference(options());
    SerialBackend backend(backwards);
    DeviceTransformerUnderTest device(backend, {options(), kBatch, GetParam().recompute});
    device.set_params(reference.params);
    double loss = 0;
    for (const std::int64_t length : {options().context, options().context - 4}) {
      const tiny::Sequences sequences(options(), kBatch, length, length);
      loss += 0.5 * reference.model->train(sequences.all(), kKey, 0.5F, reference.params,
                                           reference.gradients, {});
      device.decoder->train(sequences.all(), kKey, 0.5F, {});
    }
    EXPECT_NEAR(device.step_result().loss, loss, loss_tolerance);
    expect_close(device.layout, device.values(device.spans.gradients), reference.gradients,
                 gradient_tolerance);
  }
  ModelOptions options() const {
    ModelOptions model = GetParam().model;
    model.precision = precision;
    return model;
  }
  ModelOptions::Precision precision = ModelOptions::Precision::fp32;
};

TEST_P(OnTheCpu, GradientsAreTheModelsInFp32) {
  compare(false, 1e-5, 1e-5);
  compare(true, 1e-5, 1e-5);
}

TEST_P(OnTheCpu, GradientsAreTheModelsInBf16) {
  precision = ModelOptions::Precision::bf16;
  compare(false, 1e-2, 4e-2);
}

TEST_P(OnTheCpu, EvaluatesAsTheModelDoes) {
  Reference reference(options());
  SerialBackend backend;
  DeviceTransformerUnderTest device(backend, {options(), kBatch, GetParam().recompute});
  const tiny::Sequences sequences(options(), kBatch, options().context - 4);
  EXPECT_NEAR(device.decoder->evaluate(sequences.all()),
              reference.model->evaluate(sequences.all(), reference.params), 1e-5);
}

TEST_P(OnTheCpu, ReportsEveryTensorOnce) {
  SerialBackend backend;
  DeviceTransformerUnderTest device(backend, {options(), 1, GetParam().recompute});
  std::vector<int> reported(device.layout.size());
  std::size_t frontier = device.layout.size();
  const tiny::Sequences sequences(options(), 1, 8);
  device.decoder->train(sequences.all(), {}, 1, [&](std::size_t offset, std::size_t count) {
    for (std::size_t i = offset; i < offset + count; ++i) ++reported[i];
    if (device.layout.tensor_at(offset).spec.shape.size() < 2) return;
    EXPECT_LE(offset + count, frontier) << "matrices descend";
    frontier = offset;
  });
  for (const auto& tensor : device.layout.tensors()) {
    for (std::size_t i = 0; i < tensor.spec.count(); ++i) {
      ASSERT_EQ(reported[tensor.offset + i], 1) << tensor.spec.name << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OnTheCpu, testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

// Those go through two jobs instead of one.
TEST(DeviceModel, RowsThatAreTooWideForAWarpHaveTheModelsGradients) {
  ModelOptions wide = gpt2();
  wide.width = 1040;
  wide.heads = wide.kv_heads = 5;
  wide.hidden = 16;
  wide.layers = 1;
  ASSERT_GT(wide.width, NormBackward<float>::kPacksMax * std::int64_t{kPack});
  Reference reference(wide);
  SerialBackend backend;
  DeviceTransformerUnderTest device(backend, {wide, 1});
  const tiny::Sequences sequences(wide, 1, 8);
  reference.model->train(sequences.all(), kKey, 1, reference.params, reference.gradients, {});
  device.decoder->train(sequences.all(), kKey, 1, {});
  expect_close(device.layout, device.values(device.spans.gradients), reference.gradients, 3e-5);
}

TEST(DeviceModel, RefusesHeadsThatItsJobsCannotRun) {
  SerialBackend backend;
  EXPECT_THROW(DeviceTransformerUnderTest(backend, {tiny::gpt2(), 1}), std::system_error);
}

}  // namespace

}  // namespace causeway::intra::cuda
