// Who works on which segment of the flat layout: each belongs to exactly one rank of the region,
// which encodes it, decodes it and takes its outer step; each fragment is balanced over the ranks.
// The results are the same for any number of ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "diloco/maths/digest.h"
#include "diloco/maths/layout.h"
#include "intra/collective/collective.h"
#include "intra/outer/outer_spans.h"

namespace causeway::intra {

// Those whose class `wanted` has.
template <typename Wanted>
std::vector<std::size_t> only(const diloco::Layout& layout, Segments segments,
                              const Wanted& wanted) {
  std::vector<std::size_t> found;
  std::ranges::copy_if(segments, std::back_inserter(found),
                       [&](std::size_t index) { return wanted(layout.segments()[index].kind); });
  return found;
}

class Ownership {
 public:
  // `layout` outlives this.
  Ownership(const diloco::Layout& layout, diloco::Fragments fragments, std::size_t rank,
            std::size_t world);

  const diloco::Layout& layout() const { return *layout_; }
  const diloco::Fragments& fragments() const { return fragments_; }
  // Segments, ascending.
  Segments mine() const { return all_[rank_]; }
  Segments mine(std::size_t fragment) const { return by_fragment_[fragment][rank_]; }
  const SegmentsByRank& by_rank() const { return all_; }
  const SegmentsByRank& by_rank(std::size_t fragment) const { return by_fragment_[fragment]; }

  // Merkle root of a span of which every rank holds its own segments.
  diloco::Digest root(Collective& collective, OuterSpans& spans, Flat which) const;
  // The same, when only this fragment changed since `leaves` were made; empty: all of it. All ranks
  // know them, or none does. `own`: those of this rank's segments of the fragment as they are now.
  diloco::Digest root(Collective& collective, std::size_t fragment,
                      std::span<const diloco::Digest> own, OuterSpans& spans, Flat which,
                      std::vector<diloco::Digest>& leaves) const;

 private:
  void gather(Collective& collective, const SegmentsByRank& segments,
              std::span<const diloco::Digest> own, std::vector<diloco::Digest>& leaves) const;

  const diloco::Layout* layout_;
  diloco::Fragments fragments_;
  std::size_t rank_;
  std::vector<SegmentsByRank> by_fragment_;
  SegmentsByRank all_;
};

}  // namespace causeway::intra
