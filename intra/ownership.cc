#include "intra/ownership.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace causeway::intra {
namespace {

constexpr std::size_t kLeafElements = 4096;

}  // namespace

Ownership::Ownership(const diloco::Layout& layout, diloco::Fragments fragments, std::size_t rank,
                     std::size_t world)
    : layout_(&layout), fragments_(std::move(fragments)), rank_(rank), all_(world) {
  assert(rank < world);
  for (std::size_t fragment = 0; fragment < fragments_.count(); ++fragment) {
    const auto segments = fragments_.segments(fragment);
    const std::vector<std::size_t> owners = layout.assign(segments, world);
    ByRank& by_rank = by_fragment_.emplace_back(world);
    for (std::size_t i = 0; i < owners.size(); ++i) {
      by_rank[owners[i]].push_back(segments[i]);
      all_[owners[i]].push_back(segments[i]);
    }
  }
  for (auto& segments : all_) std::sort(segments.begin(), segments.end());
}

void Ownership::complete(Collective& collective, std::span<float> flat) const {
  complete(collective, all_, flat);
}

void Ownership::complete(Collective& collective, std::size_t fragment,
                         std::span<float> flat) const {
  complete(collective, by_fragment_[fragment], flat);
}

void Ownership::complete(Collective& collective, const ByRank& segments,
                         std::span<float> flat) const {
  if (segments.size() == 1) return;
  std::vector<std::byte> bytes;
  for (const std::size_t index : segments[rank_]) {
    const auto part = std::as_bytes(segment(index, flat));
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  const auto gathered = collective.all_gather(bytes);
  for (std::size_t rank = 0; rank < segments.size(); ++rank) {
    const std::byte* from = gathered[rank].data();
    for (const std::size_t index : segments[rank]) {
      const auto part = segment(index, flat);
      std::memcpy(part.data(), from, part.size_bytes());
      from += part.size_bytes();
    }
    assert(from == gathered[rank].data() + gathered[rank].size());
  }
}

diloco::Digest Ownership::root(Collective& collective, std::span<const float> flat) const {
  std::vector<diloco::Digest> leaves;
  return root(collective, 0, flat, leaves);
}

diloco::Digest Ownership::root(Collective& collective, std::size_t fragment,
                               std::span<const float> flat,
                               std::vector<diloco::Digest>& leaves) const {
  const bool known = !leaves.empty();
  leaves.resize(flat.size() / kLeafElements);
  hash(collective, known ? by_fragment_[fragment] : all_, flat, leaves);
  return diloco::merkle_root(leaves);
}

void Ownership::hash(Collective& collective, const ByRank& segments, std::span<const float> flat,
                     std::vector<diloco::Digest>& leaves) const {
  std::vector<diloco::Digest> own;
  for (const std::size_t index : segments[rank_]) {
    const auto of_segment = diloco::merkle_leaves(segment(index, flat));
    own.insert(own.end(), of_segment.begin(), of_segment.end());
  }
  const auto gathered = collective.all_gather(std::as_bytes(std::span(own)));
  for (std::size_t rank = 0; rank < segments.size(); ++rank) {
    const std::byte* from = gathered[rank].data();
    for (const std::size_t index : segments[rank]) {
      const diloco::Segment& segment = layout_->segments()[index];
      const std::size_t bytes = segment.count / kLeafElements * sizeof(diloco::Digest);
      std::memcpy(&leaves[segment.offset / kLeafElements], from, bytes);
      from += bytes;
    }
    assert(from == gathered[rank].data() + gathered[rank].size());
  }
}

}  // namespace causeway::intra
