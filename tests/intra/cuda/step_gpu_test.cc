// The training step on a GPU against the same jobs played on the CPU, which
// device_transformer_test.cc and device_stepper_test.cc compare with the CPU's own model.
#include <cmath>
#include <filesystem>
#include <tuple>
#include <vector>

#include "intra/cuda/device/cuda_backend.h"
#include "intra/cuda/step/device_stepper.h"
#include "intra/model/model.h"
#include "tests/intra/cuda/models.h"
#include "tests/intra/cuda/on_gpu.h"
#include "tests/intra/cuda/serial_backend.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra::cuda {
namespace {

using Precision = ModelOptions::Precision;
constexpr std::int64_t kBatch = 2;

struct Gradients {
  std::vector<float> values;
  double loss;
};

// Several times over, so that recorded work is replayed. Fibres are slow.
#ifdef CAUSEWAY_ON_FIBRES
constexpr std::uint64_t kRepeats = 1, kSteps = 3;
#else
constexpr std::uint64_t kRepeats = 3, kSteps = 10;
#endif
Gradients gradients_on(Backend& backend, const ModelOptions& model, int recompute) {
  DeviceTransformerUnderTest device(backend, {model, kBatch, recompute});
  const tiny::Sequences sequences(model, kBatch, model.context);
  for (std::uint64_t repeat = 0; repeat < kRepeats; ++repeat) {
    device.decoder->train(sequences.all(), {.seed = 7, .step = repeat}, 0.5F, {});
  }
  return {device.values(device.spans.gradients), device.step_result().loss};
}

class Step : public OnGpu {
 protected:
  void compare(Precision precision, double loss_tolerance, double gradient_tolerance) {
    for (const Case& each : cases()) {
      SCOPED_TRACE(each.name);
      ModelOptions model = each.model;
      model.precision = precision;
      SerialBackend cpu;
      CudaBackend gpu;
      const Gradients expected = gradients_on(cpu, model, each.recompute);
      const Gradients found = gradients_on(gpu, model, each.recompute);
      EXPECT_NEAR(found.loss, expected.loss, loss_tolerance * expected.loss);
      expect_close(diloco::Layout(parameter_tensors(model)), found.values, expected.values,
                   gradient_tolerance);
    }
  }
};

TEST_F(Step, GradientsAreThoseOfTheCpuInFp32) {
  compare(Precision::fp32, 1e-5, 1e-4);
}

TEST_F(Step, GradientsAreThoseOfTheCpuInBf16) {
  compare(Precision::bf16, 3e-3, 3e-2);
}

// Head sizes and lengths that cuDNN has kernels for.
ModelOptions for_fused_attention(bool grouped) {
  ModelOptions model = grouped ? llama() : gpt2();
  model.width = 256;
  model.heads = 4;
  model.kv_heads = grouped ? 2 : 4;
  model.context = 128;
  model.precision = Precision::bf16;
  return model;
}

TEST_F(Step, FusedAttentionIsThatOfPlainKernels) {
  for (const bool grouped : {false, true}) {
    const ModelOptions model = for_fused_attention(grouped);
    CudaBackend fused, plain(0, {.fused_attention = false});
    const Gradients expected = gradients_on(plain, model, 0);
    const Gradients found = gradients_on(fused, model, 0);
    if (fused.fused_attentions() == 0) GTEST_SKIP() << "cuDNN is not here, or has no kernel for it";
    EXPECT_EQ(plain.fused_attentions(), 0);
    EXPECT_NEAR(found.loss, expected.loss, 1e-2);
    expect_close(diloco::Layout(parameter_tensors(model)), found.values, expected.values, 3e-2);
  }
}

TEST_F(Step, RepeatsItsBitsRecordedOrNot) {
  const ModelOptions model = for_fused_attention(true);
  CudaBackend once, again, plain(0, {.graphs = false});
  const Gradients expected = gradients_on(once, model, 1);
  EXPECT_EQ(gradients_on(again, model, 1).values, expected.values);
  EXPECT_EQ(gradients_on(plain, model, 1).values, expected.values);
}

// Timing leaves no trace in the step that it is done in.
TEST_F(Step, RepeatsItsBitsWithProductsThatAreTimedAndThenKept) {
  ModelOptions model = gpt2();
  model.precision = Precision::bf16;
  const TemporaryDirectory directory;
  const CudaOptions options{.kept_algorithms = directory.path() / "products"};
  CudaBackend timing(0, options), reading(0, options);
  const Gradients expected = gradients_on(timing, model, 0);
  EXPECT_EQ(gradients_on(reading, model, 0).values, expected.values);
  EXPECT_TRUE(std::filesystem::exists(*options.kept_algorithms));
}

// The parameters after kSteps.
std::vector<float> train(const WorkerOptions& options, std::unique_ptr<Backend> backend) {
  const diloco::Layout layout(parameter_tensors(options.model));
  TrainingState state(options.inner, layout);
  const auto group = make_solo_collective();
  const auto stepper = make_device_stepper(options, std::move(backend));
  initialise_parameters(options.model, layout, 1, state.params);
  stepper->join(*group, state);
  for (std::int64_t step = 0; step < std::int64_t{kSteps}; ++step) {
    const tiny::Sequences sequences(options.model, kBatch, 16, step);
    stepper->begin(1e-3F);
    stepper->accumulate(sequences.all(), {}, 1, true);
    EXPECT_TRUE(std::isfinite(stepper->finish().loss));
    EXPECT_TRUE(std::isfinite(stepper->update()));
    ++state.optimizer_steps;
  }
  stepper->settle(Settle::all);
  return std::move(state.params);
}

TEST_F(Step, TakesStepsAsTheCpuDoes) {
  using enum InnerOptions::Optimizer;
  WorkerOptions options;
  options.model = llama();
  options.train.batch = kBatch;
  options.inner.clip_norm = 0.5F;
  for (const bool bf16 : {false, true}) {
    for (const auto optimizer : {adamw, muon}) {
      SCOPED_TRACE(testing::Message() << "bf16 " << bf16 << ", muon " << (optimizer == muon));
      options.model.precision = bf16 ? Precision::bf16 : Precision::fp32;
      options.inner.optimizer = optimizer;
      const auto expected = train(options, std::make_unique<SerialBackend>());
      const auto found = train(options, std::make_unique<CudaBackend>());
      EXPECT_LT(tiny::relative_difference(found, expected), bf16 ? 2e-2 : 1e-3);
    }
  }
}

// What Muon multiplies: each matrix by its own, stored either way, against the serial backend.
TEST_F(Step, SeveralProductsAreEachThatOfTheirMatrices) {
  constexpr std::int64_t kCount = 3, kM = 16, kN = 8, kK = 24;
  std::vector<float> a(kCount * kM * kK), b(kCount * kK * kN);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7);
  const auto multiply = [&](Backend&& backend, bool transposed) {
    std::vector<float> c(kCount * kM * kN);
    const auto on_device = [&](const std::vector<float>& values) {
      std::byte* const memory = backend.allocate(values.size() * sizeof(float));
      backend.upload(values.data(), memory, values.size() * sizeof(float));
      return memory;
    };
    Product product;
    product.element = product.result = Element::fp32;
    product.m = kM;
    product.n = kN;
    product.k = kK;
    product.count = kCount;
    product.a = {on_device(a), transposed ? kM : kK, transposed};
    product.b = {on_device(b), transposed ? kK : kN, transposed};
    product.c = backend.allocate(c.size() * sizeof(float));
    product.c_stride = kN;
    backend.multiply(product);
    backend.download(product.c, c.data(), c.size() * sizeof(float));
    return c;
  };
  for (const bool transposed : {false, true}) {
    EXPECT_EQ(multiply(CudaBackend(), transposed), multiply(SerialBackend(), transposed));
  }
}

// A kernel that was chosen for one is not taken for the other.
TEST_F(Step, ProductsThatDifferInTheirStridesAloneAreDifferent) {
  constexpr std::int64_t kSize = 16, kWide = 24;
  std::vector<float> values(kSize * kWide);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 11);
  const auto products = [&](Backend&& backend) {
    std::vector<std::vector<float>> results;
    std::byte* const there = backend.allocate(values.size() * sizeof(float));
    backend.upload(values.data(), there, values.size() * sizeof(float));
    for (const auto& [a, b, c] :
         {std::tuple(kSize, kSize, kSize), std::tuple(kWide, kSize, kSize),
          std::tuple(kSize, kWide, kSize), std::tuple(kSize, kSize, kWide)}) {
      Product product;
      product.element = product.result = Element::fp32;
      product.m = product.n = product.k = kSize;
      product.a = {there, a, false};
      product.b = {there, b, true};
      product.c = backend.allocate(values.size() * sizeof(float));
      product.c_stride = c;
      backend.multiply(product);
      std::vector<float>& result = results.emplace_back(kSize * c);
      backend.download(product.c, result.data(), result.size() * sizeof(float));
    }
    return results;
  };
  EXPECT_EQ(products(CudaBackend()), products(SerialBackend()));
}

// What was recorded of one is not replayed for the other.
TEST_F(Step, SequencesOfTwoLengthsAreEachRecorded) {
  const ModelOptions model = llama();
  const auto train = [&](Backend&& backend) {
    DeviceTransformerUnderTest device(backend, {model, kBatch, 0});
    for (std::uint64_t repeat = 0; repeat < 3; ++repeat) {
      for (const std::int64_t length : {model.context, model.context / 2}) {
        const tiny::Sequences sequences(model, kBatch, length);
        device.decoder->train(sequences.all(), {.seed = 7, .step = repeat}, 0.5F, {});
      }
    }
    return device.values(device.spans.gradients);
  };
  expect_close(diloco::Layout(parameter_tensors(model)), train(CudaBackend()),
               train(SerialBackend()), 1e-4);
}

}  // namespace
}  // namespace causeway::intra::cuda
