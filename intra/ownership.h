// Who works on which segment of the flat layout: each belongs to exactly one rank of the region,
// which encodes it, decodes it and takes its outer step; each fragment is balanced over the ranks.
// The results are the same for any number of ranks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "diloco/digest.h"
#include "diloco/fragments.h"
#include "diloco/layout.h"
#include "intra/collective.h"

namespace causeway::intra {

class Ownership {
 public:
  // `layout` outlives this.
  Ownership(const diloco::Layout& layout, diloco::Fragments fragments, std::size_t rank,
            std::size_t world);

  const diloco::Layout& layout() const { return *layout_; }
  const diloco::Fragments& fragments() const { return fragments_; }
  // Segments, ascending.
  std::span<const std::size_t> mine() const { return of(rank_); }
  std::span<const std::size_t> of(std::size_t rank) const { return all_[rank]; }
  std::span<const std::size_t> mine(std::size_t fragment) const { return of(fragment, rank_); }
  std::span<const std::size_t> of(std::size_t fragment, std::size_t rank) const {
    return by_fragment_[fragment][rank];
  }

  // The part of a flat span that is segment `index`.
  template <typename T>
  std::span<T> segment(std::size_t index, std::span<T> flat) const {
    const diloco::Segment& segment = layout_->segments()[index];
    return flat.subspan(segment.offset, segment.count);
  }

  // On entry every rank's own segments of `flat` are right; on return all of them, everywhere.
  void complete(Collective& collective, std::span<float> flat) const;
  // The same for those of one fragment.
  void complete(Collective& collective, std::size_t fragment, std::span<float> flat) const;

  // Merkle root of a span of which every rank holds its own segments.
  diloco::Digest root(Collective& collective, std::span<const float> flat) const;
  // The same, when only this fragment changed since `leaves` were made; empty: all of it. All ranks
  // know them, or none does.
  diloco::Digest root(Collective& collective, std::size_t fragment, std::span<const float> flat,
                      std::vector<diloco::Digest>& leaves) const;

 private:
  using ByRank = std::vector<std::vector<std::size_t>>;
  void complete(Collective& collective, const ByRank& segments, std::span<float> flat) const;
  void hash(Collective& collective, const ByRank& segments, std::span<const float> flat,
            std::vector<diloco::Digest>& leaves) const;

  const diloco::Layout* layout_;
  diloco::Fragments fragments_;
  std::size_t rank_;
  std::vector<ByRank> by_fragment_;
  ByRank all_;
};

}  // namespace causeway::intra
