// The decoder of model/transformer.h as jobs and products on a Backend: same parameters, same
// gradients within rounding. Activations are fp32 or bf16 (ModelOptions::precision) everywhere,
// the residual stream too; statistics, losses, gradients of parameters and sums are fp32.
//
// A product reads the head matrix, and adds to its gradient, in whole tiles: up to slack() elements
// past its end, which are multiplied by zeros, and added zeros. Spans have that much room after
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "intra/cuda/jobs/backend.h"
#include "intra/cuda/step/mirror.h"
#include "intra/model/model.h"

namespace causeway::intra::cuda {

struct DeviceTransformerOptions {
  ModelOptions model;
  std::int64_t batch = 0;  // most sequences at a time, each of at most model.context tokens
  // What backward computes again instead of keeping: 0 nothing; 1 the activation function's output;
  // 2 the norms' outputs too.
  int recompute = 0;
};

class DeviceTransformer {
 public:
  virtual ~DeviceTransformer() = default;

  // gradients += scale * d(mean loss); result->loss += scale * mean loss. Asynchronous: `ready` is
  // called when what makes a range final has been asked for.
  virtual void train(const Batch& batch, const DropoutKey& dropout, float scale,
                     const Model::GradientReady& ready) = 0;
  // Mean loss without dropout; waits for it.
  virtual double evaluate(const Batch& batch) = 0;
  // After params changed otherwise than by an update that rounded into weights().
  virtual void params_changed() = 0;
  // What the products multiply, at the offsets of the parameters; null if that is params.
  virtual Bfloat16* weights() = 0;
};

// Elements of room that each span needs after its end.
std::size_t slack(const ModelOptions& options);

// Throws Errc::bad_model if the backend's jobs cannot run the model. `spans` are in the backend's
// memory, and like `result` and `backend` outlive the decoder.
std::unique_ptr<DeviceTransformer> make_device_transformer(const DeviceTransformerOptions& options,
                                                           const diloco::Layout& layout,
                                                           const TrainingSpans& spans,
                                                           StepResult* result, Backend& backend);

}  // namespace causeway::intra::cuda
