// The parts in which gradients are summed over a region's ranks, and which of each a rank keeps
// when the optimizer's state is shared out. Cut from the layout alone: every rank has the same
// ones.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "diloco/maths/layout.h"
#include "intra/base/adamw.h"
#include "intra/collective/collective.h"

namespace causeway::intra {

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

}  // namespace causeway::intra
