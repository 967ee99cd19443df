// Overlaps the in-region all-reduce of gradients with backward: while deeper layers' gradients are
// being summed over the ranks, backward computes the shallower ones.
//
//   backward thread                               communication thread
//   model->train(..., reducer.ready)  --range-->  bucket complete? all-reduce it
//   reducer.finish()                  <--done---  after the last bucket
//
// Buckets are cut from the layout alone, from the last matrix down to the first and then the
// vectors, and are all-reduced in that order: every rank makes the same calls whatever its timing.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "intra/collective/collective.h"
#include "intra/collective/gradient_buckets.h"

namespace causeway::intra {

class GradientReducer {
 public:
  // Of what computes gradients asynchronously: the point that it has been asked to reach by now, as
  // a wait for it. Called on the caller's thread, the wait on the communication thread.
  using Wait = std::function<void()>;
  using Point = std::function<Wait()>;

  // Where the sums are afterwards: on every rank, or only where they are the rank's own part.
  enum class Result { everywhere, own_parts };

  // Sums `gradients` over the ranks of `collective`; both outlive the reducer. Without `point`,
  // what is reported ready is there. In a group of one nothing is started and every call returns at
  // once.
  GradientReducer(Collective& collective, GradientBuckets buckets, std::span<float> gradients,
                  Result result = Result::everywhere, Point point = {});
  // Waits for the all-reduce in flight, if a step was abandoned: at most the collective's deadline.
  ~GradientReducer();

  // Model::GradientReady: elements [offset, offset + count) are final for this step. Matrices must
  // come in descending order; vectors are small and wait for finish(). Report ranges only in the
  // last micro-batch of a step.
  void ready(std::size_t offset, std::size_t count);

  // Until resume(), nothing is summed, and the collective is the caller's.
  void hold();
  void resume();

  // Ends the step: every gradient is final. Returns when all are summed; then the next step may
  // begin. Rethrows what the collective threw, after which neither may be used again. From the
  // first ready(), or resume(), until here the collective is the reducer's.
  void finish();

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;  // empty in a group of one
};

}  // namespace causeway::intra
