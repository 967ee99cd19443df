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
  std::vector<diloco::Digest> leaves;
  return root(collective, 0, spans, which, leaves);
}

diloco::Digest Ownership::root(Collective& collective, std::size_t fragment, OuterSpans& spans,
                               Flat which, std::vector<diloco::Digest>& leaves) const {
  const bool known = !leaves.empty();
  leaves.resize(layout_->size() / diloco::kLeafElements);
  hash(collective, known ? by_fragment_[fragment] : all_, spans, which, leaves);
  return diloco::merkle_root(leaves);
}

void Ownership::hash(Collective& collective, const SegmentsByRank& segments, OuterSpans& spans,
                     Flat which, std::vector<diloco::Digest>& leaves) const {
  const std::vector<diloco::Digest> own = spans.leaves(which, segments[rank_]);
  const auto gathered = collective.all_gather(std::as_bytes(std::span(own)));
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
