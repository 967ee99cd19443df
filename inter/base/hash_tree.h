// SHA-256 over a tree, as in RFC 6962, so that parts of a content can be hashed in any order, by
// several threads at once, and compared part by part.
//
//   leaf i   SHA-256(0x00 || kLeafBytes bytes from kLeafBytes i on), the last of what is left
//   node     SHA-256(0x01 || left || right), of two nodes of the level below, from the left on; an
//            odd one out goes up as it is
//
// The root of no leaves is SHA-256(""). A part of 2^n leaves from a multiple of that on is a
// subtree: the root over the roots of such parts is the root over all leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "inter/base/hash.h"

namespace causeway::inter {

inline constexpr std::size_t kLeafBytes = 16U << 10;

// Hashes leaves, several at a time where the CPU can (sha256_lanes.h). Leaves and hashes must live
// until finish().
class LeafHasher {
 public:
  void add(std::span<const std::byte> leaf, Sha256Hash& hash);  // at most kLeafBytes
  void finish();

 private:
  static constexpr std::size_t kAtOnce = 16;

  Sha256 hash_;
  const std::byte* leaves_[kAtOnce] = {};
  Sha256Hash* hashes_[kAtOnce] = {};
  std::size_t waiting_ = 0;
};

Sha256Hash tree_root(std::vector<Sha256Hash> nodes);  // over a level of the tree

// What hashes `bytes` bytes from `offset` on: a part of the content, for any thread.
using HashPart = std::function<Sha256Hash(std::uint64_t offset, std::size_t bytes)>;
inline constexpr std::size_t kHashPartBytes = 256U << 10;
// The root of a content, of which each part has kHashPartBytes, the last what is left. A large one
// is shared by a few threads.
Sha256Hash tree_hash(std::uint64_t size_bytes, const HashPart& hash_part);
Sha256Hash tree_hash(std::span<const std::byte> content);

}  // namespace causeway::inter
