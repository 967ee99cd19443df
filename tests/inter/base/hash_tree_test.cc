#include "inter/base/hash_tree.h"

#include <atomic>
#include <bit>

#include <gtest/gtest.h>

namespace causeway::inter {
namespace {

std::vector<std::byte> content(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

// As RFC 6962 defines it, section 2.1: by halving, not level by level.
Sha256Hash rfc_6962(std::span<const std::byte> bytes) {
  Sha256 hash;
  const std::size_t leaves = (bytes.size() + kLeafBytes - 1) / kLeafBytes;
  if (leaves == 0) return hash.finish();
  const std::byte leaf_tag{0}, node_tag{1};
  if (leaves == 1) {
    hash.update({&leaf_tag, 1});
    hash.update(bytes);
    return hash.finish();
  }
  const std::size_t left = std::bit_floor(leaves - 1) * kLeafBytes;
  const Sha256Hash halves[] = {rfc_6962(bytes.first(left)), rfc_6962(bytes.subspan(left))};
  hash.update({&node_tag, 1});
  hash.update(std::as_bytes(std::span(halves)));
  return hash.finish();
}

TEST(HashTree, IsThatOfRfc6962) {
  const auto bytes = content(40 * kLeafBytes + 5);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, kLeafBytes - 1, kLeafBytes, kLeafBytes + 1, 2 * kLeafBytes,
        3 * kLeafBytes, 5 * kLeafBytes + 7, 7 * kLeafBytes, kHashPartBytes, kHashPartBytes + 1,
        2 * kHashPartBytes + 3 * kLeafBytes, bytes.size()}) {
    EXPECT_EQ(tree_hash(std::span(bytes).first(size)), rfc_6962(std::span(bytes).first(size)))
        << size;
  }
}

// What a receiver computes, whose chunks may have 64 KiB or 256 KiB.
TEST(HashTree, IsTheRootOverItsParts) {
  const auto bytes = content(70 * kLeafBytes + 9);  // more nodes than are hashed at once
  for (const std::size_t part_bytes :
       {kLeafBytes, 2 * kLeafBytes, 4 * kLeafBytes, 16 * kLeafBytes}) {
    std::vector<Sha256Hash> parts;
    for (std::size_t at = 0; at < bytes.size(); at += part_bytes) {
      const auto rest = std::span(bytes).subspan(at);
      parts.push_back(tree_hash(rest.first(std::min(rest.size(), part_bytes))));
    }
    EXPECT_EQ(tree_root(parts), rfc_6962(bytes)) << part_bytes;
  }
}

// More parts than one thread takes: each is hashed once, whoever does it.
TEST(HashTree, OfALargeContentIsSharedByThreads) {
  constexpr std::uint64_t kParts = 4 * 256 + 77;
  std::vector<std::atomic<int>> asked(kParts + 1);
  const auto hash_part = [&asked](std::uint64_t offset, std::size_t bytes) {
    EXPECT_EQ(bytes, offset == kParts * kHashPartBytes ? 3U : kHashPartBytes);
    ++asked[offset / kHashPartBytes];
    return Sha256Hash{static_cast<std::uint8_t>(offset >> 18),
                      static_cast<std::uint8_t>(offset >> 26)};
  };
  std::vector<Sha256Hash> parts;
  for (std::uint64_t i = 0; i <= kParts; ++i)
    parts.push_back({static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i >> 8)});
  EXPECT_EQ(tree_hash(kParts * kHashPartBytes + 3, hash_part), tree_root(parts));
  for (const auto& times : asked) EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace causeway::inter
