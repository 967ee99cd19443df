#include "intra/outer/ownership.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace causeway::intra {

Ownership::Ownership(const diloco::Layout& layout, diloco::Fragments fragments, std::size_t rank,
                     std::size_t world)
    : layout_(&layout), fragments_(std::move(fragments)), rank_(rank), all_(world) {
  assert(rank < world);
  for (std::size_t fragment = 0; fragment < fragments_.count(); ++fragment) {
    const auto segments = fragments_.segments(fragment);
    const std::vector<std::size_t> owners = layout.assign(segments, world);
    SegmentsByRank& by_rank = by_fragment_.emplace_back(world);
    for (std::size_t i = 0; i < owners.size(); ++i) {
      by_rank[owners[i]].push_back(segments[i]);
      all_[owners[i]].push_back(segments[i]);
    }
  }
  for (auto& segments : all_) std::sort(segments.begin(), segments.end());
}

diloco::Digest Ownership::root(Collective& collective, OuterSpans& spans, Flat which) const {
  std::vector<diloco::Digest> leaves(layout_->size() / diloco::kLeafElements);
  gather(collective, all_, spans.leaves(which, all_[rank_]), leaves);
  return diloco::merkle_root(leaves);
}

diloco::Digest Ownership::root(Collective& collective, std::size_t fragment,
                               std::span<const diloco::Digest> own, OuterSpans& spans, Flat which,
                               std::vector<diloco::Digest>& leaves) const {
  const bool others_known = !leaves.empty() || fragments_.count() == 1;
  leaves.resize(layout_->size() / diloco::kLeafElements);
  if (others_known) {
    gather(collective, by_fragment_[fragment], own, leaves);
  } else {
    gather(collective, all_, spans.leaves(which, all_[rank_]), leaves);
  }
  return diloco::merkle_root(leaves);
}

void Ownership::gather(Collective& collective, const SegmentsByRank& segments,
                       std::span<const diloco::Digest> own,
                       std::vector<diloco::Digest>& leaves) const {
  const auto gathered = collective.all_gather(std::as_bytes(own));
  for (std::size_t rank = 0; rank < segments.size(); ++rank) {
    const std::byte* from = gathered[rank].data();
    for (const std::size_t index : segments[rank]) {
      const diloco::Segment& segment = layout_->segments()[index];
      const std::size_t bytes = segment.count / diloco::kLeafElements * sizeof(diloco::Digest);
      std::memcpy(&leaves[segment.offset / diloco::kLeafElements], from, bytes);
      from += bytes;
    }
    assert(from == gathered[rank].data() + gathered[rank].size());
  }
}

}  // namespace causeway::intra
