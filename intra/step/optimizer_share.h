// Optimizer state shared out over a region's ranks (ZeRO stage 1, arXiv 1910.02054): each keeps the
// moments of its part of every gradient bucket, steps that part, and gets the others' parameters.
#pragma once

#include <span>
#include <vector>

#include "intra/collective/collective.h"
#include "intra/collective/gradient_reducer.h"
#include "intra/step/training_state.h"

namespace causeway::intra {

// While a group lasts. What it is given outlives it.
class OptimizerShare {
 public:
  OptimizerShare(const GradientBuckets& buckets, Collective& group, TrainingState& state);

  std::span<const Range> parts() const { return parts_; }  // the own ones, ascending

  // The state's moments become those of the own parts.
  void keep();
  // Of all ranks together. The state's moments become all of them.
  void gather();
  // Of all ranks together. The gradient's norm, from the sum of squares of each one's parts.
  double norm(double own_squares);
  // Of all ranks together. `params`, right in the own parts, becomes so everywhere; `group`: the
  // ranks, where it lies.
  void complete_params(Collective& group, std::span<float> params);

 private:
  const GradientBuckets& buckets_;
  Collective& group_;
  TrainingState& state_;
  const std::vector<Range> parts_;
};

}  // namespace causeway::intra
