// Norm, clipping, AdamW and Muon on a Backend, of the whole flat span or of a rank's parts
// (optimizer_share.h). Moments stay on the device between steps.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "intra/cuda/step/device_muon.h"
#include "intra/cuda/step/mirror.h"
#include "intra/step/optimizer_share.h"
#include "intra/step/worker_options.h"

namespace causeway::intra::cuda {

class DeviceOptimizer {
 public:
  // `weights`: what the products multiply, which follows the parameters; null: the parameters
  // themselves. All outlive the optimizer.
  DeviceOptimizer(const WorkerOptions& options, const diloco::Layout& layout,
                  const GradientBuckets& buckets, const TrainingSpans& spans, Bfloat16* weights,
                  StepResult* result, Backend& backend);

  // From here to leave() it is one of the group's ranks; null: it is alone. With a share it steps
  // the share's parts, and without one all but the matrices that Muon steps on other ranks. The
  // group brings what other ranks stepped.
  void join(OptimizerShare* share, Collective* group);
  void leave() { join(nullptr, nullptr); }

  // The moments are those of the state, and the next step is its.
  void begin(TrainingState& state, float lr);
  // Into the result: the gradient's norm, and by how much it is clipped.
  void measure();
  // Asks for the step, unless the norm is not finite.
  void step();

  void moments_changed();
  void settle(AdamW& moments);

 private:
  std::span<const Range> parts() const;
  std::int64_t measure_parts();
  void measure_all_ranks();
  template <typename T>
  void step_parts(T* weights);
  template <typename T>
  void step_part(const Range& part, std::size_t first, std::size_t second, T* weights);
  void step_muon(Bfloat16* weights);
  // Other ranks step some of the parameters.
  bool is_shared_out() const { return share_ != nullptr || (group_ != nullptr && !muon_.empty()); }
  void complete();
  const PhiloxKey* dither() const;

  const WorkerOptions& options_;
  const GradientBuckets& buckets_;
  TrainingSpans spans_;
  Bfloat16* weights_;
  StepResult* result_;
  Backend& backend_;
  std::size_t matrices_end_;
  std::vector<Range> whole_;
  UpdateScalars* update_;
  double* partials_;
  std::optional<Mirror> first_moment_, second_moment_;
  DeviceMuon muon_;
  TrainingState* state_ = nullptr;  // of the step under way
  float lr_ = 0;                    // its
  OptimizerShare* share_ = nullptr;
  Collective* group_ = nullptr;
};

}  // namespace causeway::intra::cuda
