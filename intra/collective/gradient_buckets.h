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
  // bucket_bytes is rounded up to a whole chunk of 4,096 elements.
  GradientBuckets(const diloco::Layout& layout, std::size_t bucket_bytes);

  std::span<const Range> all() const { return buckets_; }
  std::size_t matrices_end() const { return matrices_end_; }

  // Elements of bucket `index` for each of `ranks`: near-equal, and adding up to the bucket.
  std::vector<std::size_t> counts(std::size_t index, std::size_t ranks) const;
  // All that is a rank's, ascending.
  std::vector<Range> parts(std::size_t rank, std::size_t ranks) const;

  // On entry the own parts of `flat` are right on every rank; on return all of it.
  void complete(Collective& group, std::span<float> flat) const;

 private:
  std::size_t matrices_end_;
  std::vector<Range> buckets_;
};

}  // namespace causeway::intra
