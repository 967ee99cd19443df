// What a step asks of the device and of the host, counted on the doubles: launches, bytes over the
// bus, and how often the host waits.
#include <cstdint>
#include <cstdio>
#include <memory>

#include <gtest/gtest.h>

#include "intra/cuda/device/cuda_backend.h"
#include "intra/cuda/step/device_stepper.h"
#include "intra/model/model.h"
#include "tests/gpu_double/cudart.h"
#include "tests/intra/cuda/models.h"

namespace causeway::intra::cuda {
namespace {

constexpr std::int64_t kBatch = 3;
constexpr int kRecorded = 3;  // steps until all work is replayed

gpu_double::Counts operator-(gpu_double::Counts a, const gpu_double::Counts& b) {
  return {.launches = a.launches - b.launches,
          .graphs = a.graphs - b.graphs,
          .up_bytes = a.up_bytes - b.up_bytes,
          .down_bytes = a.down_bytes - b.down_bytes,
          .waits = a.waits - b.waits};
}

// Of one step that is replayed.
gpu_double::Counts counts_of_a_step(const ModelOptions& model) {
  WorkerOptions options;
  options.model = model;
  options.train.batch = kBatch;
  const diloco::Layout layout(parameter_tensors(options.model));
  TrainingState state(options.inner, layout);
  const auto group = make_solo_collective();
  const auto stepper = make_device_stepper(options, std::make_unique<CudaBackend>());
  initialise_parameters(options.model, layout, 1, state.params);
  stepper->join(*group, state);
  gpu_double::Counts before, after;
  for (std::int64_t step = 0; step < kRecorded + 1; ++step) {
    const tiny::Sequences sequences(options.model, kBatch, options.model.context, step);
    before = gpu_double::counts();
    stepper->begin(1e-3F);
    stepper->accumulate(sequences.all(), {}, 1, true);
    stepper->finish();
    stepper->update();
    after = gpu_double::counts();
    ++state.optimizer_steps;
  }
  stepper->settle(Settle::all);
  return after - before;
}

TEST(Timeline, AStepLetsTheHostWaitOnceAndSendsTokensAlone) {
  for (const ModelOptions& model : {gpt2(), llama()}) {
    const gpu_double::Counts step = counts_of_a_step(model);
    std::printf(
        "%u layers: %lu launches in %lu graphs, %lu bytes up, %lu bytes down, the host waited %lu "
        "times\n",
        static_cast<unsigned>(model.layers), step.launches, step.graphs, step.up_bytes,
        step.down_bytes, step.waits);
    EXPECT_LE(step.waits, 1U);
    EXPECT_GE(step.graphs, 1U);
    // Tokens, targets, their order, and numbers of the step up; what the step came to down.
    EXPECT_LT(step.up_bytes,
              4 * kBatch * static_cast<std::uint64_t>(model.context) * sizeof(std::int32_t) + 512);
    EXPECT_LT(step.down_bytes, 256U);
  }
}

}  // namespace
}  // namespace causeway::intra::cuda
