// Who works on which segment of the flat layout: each belongs to exactly one rank of the region,
// which encodes it, decodes it and takes its outer step. The results are the same for any number of
// ranks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "diloco/digest.h"
#include "diloco/layout.h"
#include "intra/collective.h"

namespace causeway::intra {

class Ownership {
 public:
  // `layout` outlives this.
  Ownership(const diloco::Layout& layout, std::size_t rank, std::size_t world);

  const diloco::Layout& layout() const { return *layout_; }
  std::span<const std::size_t> mine() const { return segments_[rank_]; }  // ascending
  std::span<const std::size_t> of(std::size_t rank) const { return segments_[rank]; }

  // The part of a flat span that is segment `index`.
  template <typename T>
  std::span<T> segment(std::size_t index, std::span<T> flat) const {
    const diloco::Segment& segment = layout_->segments()[index];
    return flat.subspan(segment.offset, segment.count);
  }

  // On entry every rank's own segments of `flat` are right; on return all of them, everywhere.
  void complete(Collective& collective, std::span<float> flat) const;

  // Merkle root of a span of which every rank holds its own segments.
  diloco::Digest root(Collective& collective, std::span<const float> flat) const;

 private:
  const diloco::Layout* layout_;
  std::size_t rank_;
  std::vector<std::vector<std::size_t>> segments_;  // by rank
};

}  // namespace causeway::intra
