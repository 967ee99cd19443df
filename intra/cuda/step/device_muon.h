// Muon's step (step/muon.h) on a Backend.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "intra/cuda/jobs/backend.h"
#include "intra/cuda/step/mirror.h"
#include "intra/step/muon.h"
#include "intra/step/worker_options.h"

namespace causeway::intra::cuda {

class DeviceMuon {
 public:
  // Of one step.
  struct Update {
    float lr = 0;
    std::span<const Range> own;         // the parts whose matrices are stepped here
    const AdamW& moments;               // says where `momentum` has each matrix
    Pack<float>* momentum = nullptr;    // the first moments, on the device
    Bfloat16* weights = nullptr;        // all that the products multiply; null: the parameters
    const PhiloxKey* dither = nullptr;  // of the weights; null: to the nearest
  };

  // As many matrices are stepped together as this much room is enough for, or one: each alone would
  // leave most of a large GPU idle.
  static constexpr std::int64_t kRoomBytes = std::int64_t{512} << 20;

  // No matrices unless Muon is the optimizer. `result`: how gradients are clipped.
  DeviceMuon(const WorkerOptions& options, const diloco::Layout& layout, const TrainingSpans& spans,
             const StepResult* result, Backend& backend);

  bool empty() const { return matrices_.empty(); }
  // Momentum of all matrices that `moments` has, and a step of the own ones.
  void step(const Update& update);

 private:
  struct Batch;

  // Into the momentum, of which `copy` becomes a copy; null: without.
  void add_gradient(const MuonMatrix& matrix, const Update& update, Pack<float>* copy);
  template <typename T>
  void step_batch(std::span<const MuonMatrix> matrices, const Update& update);
  template <typename T>
  void iterate(const float (&polynomial)[3], const Batch& batch);
  void apply(const MuonMatrix& matrix, const Pack<float>* step, const Update& update);
  // What the products multiply: in fp32 the values, in bf16 what they were rounded to.
  template <typename T>
  static const T* operand(const float* values, const Bfloat16* as_bf16) {
    if constexpr (std::is_same_v<T, float>)
      return values;
    else
      return as_bf16;
  }
  // Where a job rounds the values to; null in fp32.
  template <typename T>
  static Pack<T>* rounded(Bfloat16* as_bf16) {
    return reinterpret_cast<Pack<T>*>(as_bf16);
  }

  const WorkerOptions& options_;
  TrainingSpans spans_;
  const StepResult* result_;
  Backend& backend_;
  std::vector<MuonMatrix> matrices_;  // by shape
  float *values_ = nullptr, *product_ = nullptr, *gram_ = nullptr, *square_ = nullptr;
  Bfloat16 *values_operand_ = nullptr, *gram_operand_ = nullptr;  // null: fp32
  double* partials_ = nullptr;
};

}  // namespace causeway::intra::cuda
