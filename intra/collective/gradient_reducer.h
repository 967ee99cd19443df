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
#include <vector>

#include "diloco/maths/layout.h"
#include "intra/base/adamw.h"
#include "intra/collective/collective.h"

namespace causeway::intra {

// The parts in which gradients are summed over a region's ranks, and which of each a rank keeps
// when the optimizer's state is shared out. Cut from the layout alone: every rank has the same
// ones.

class GradientBuckets {
 public:
  // From the last matrix down to the first, then the vectors, as backward makes them ready.
  // bucket_bytes is rounded up to a whole chunk of 4,096 elements. Each of the `undivided`
  // matrices, which lie side by side, is one rank's as a whole, and a bucket has whole ones of
  // them, one at least.
  GradientBuckets(const diloco::Layout& layout, std::size_t bucket_bytes,
                  std::vector<Range> undivided = {});

  std::span<const Range> all() const { return buckets_; }
  std::size_t matrices_end() const { return matrices_end_; }

  // Elements of bucket `index` for each of `ranks`, adding up to the bucket: near-equal, or over
  // all buckets as equal as undivided matrices allow.
  std::vector<std::size_t> counts(std::size_t index, std::size_t ranks) const;
  // All that is a rank's, ascending.
  std::vector<Range> parts(std::size_t rank, std::size_t ranks) const;

  // On entry the own parts of `flat` are right on every rank; on return all of it. `left_out`,
  // whole buckets, is not in `flat`.
  void complete(Collective& group, std::span<float> flat, const Range& left_out = {}) const;
  // The same of the undivided matrices alone.
  void complete_undivided(Collective& group, std::span<float> flat) const;

 private:
  bool is_undivided(const Range& bucket) const;
  std::size_t owner(const Range& matrix, std::size_t ranks) const;
  void complete_bucket(Collective& group, std::size_t index, std::span<float> elements) const;

  std::size_t matrices_end_;
  std::vector<Range> undivided_;
  std::vector<Range> buckets_;
};

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
