#include "intra/ownership.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace causeway::intra {
namespace {

constexpr std::size_t kLeafElements = 4096;

}  // namespace

Ownership::Ownership(const diloco::Layout& layout, std::size_t rank, std::size_t world)
    : layout_(&layout), rank_(rank), segments_(world) {
  assert(rank < world);
  const std::vector<std::size_t> owners = layout.assign(world);
  for (std::size_t i = 0; i < owners.size(); ++i) segments_[owners[i]].push_back(i);
}

void Ownership::complete(Collective& collective, std::span<float> flat) const {
  if (segments_.size() == 1) return;
  std::vector<std::byte> bytes;
  for (const std::size_t index : mine()) {
    const auto part = std::as_bytes(segment(index, flat));
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  const auto gathered = collective.all_gather(bytes);
  for (std::size_t rank = 0; rank < segments_.size(); ++rank) {
    const std::byte* from = gathered[rank].data();
    for (const std::size_t index : of(rank)) {
      const auto part = segment(index, flat);
      std::memcpy(part.data(), from, part.size_bytes());
      from += part.size_bytes();
    }
    assert(from == gathered[rank].data() + gathered[rank].size());
  }
}

diloco::Digest Ownership::root(Collective& collective, std::span<const float> flat) const {
  if (segments_.size() == 1) return diloco::merkle_root(diloco::merkle_leaves(flat));
  std::vector<diloco::Digest> own;
  for (const std::size_t index : mine()) {
    const auto leaves = diloco::merkle_leaves(segment(index, flat));
    own.insert(own.end(), leaves.begin(), leaves.end());
  }
  const auto gathered = collective.all_gather(std::as_bytes(std::span(own)));
  std::vector<diloco::Digest> leaves(flat.size() / kLeafElements);
  for (std::size_t rank = 0; rank < segments_.size(); ++rank) {
    const std::byte* from = gathered[rank].data();
    for (const std::size_t index : of(rank)) {
      const diloco::Segment& segment = layout_->segments()[index];
      const std::size_t bytes = segment.count / kLeafElements * sizeof(diloco::Digest);
      std::memcpy(&leaves[segment.offset / kLeafElements], from, bytes);
      from += bytes;
    }
    assert(from == gathered[rank].data() + gathered[rank].size());
  }
  return diloco::merkle_root(leaves);
}

}  // namespace causeway::intra
