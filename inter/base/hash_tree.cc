#include "inter/base/hash_tree.h"

#include <algorithm>
#include <bit>
#include <future>
#include <thread>

#include "inter/base/sha256_lanes.h"

namespace causeway::inter {
namespace {

// Part of the format: do not renumber. Two tags, so that no leaf can be passed off as an inner node
// (RFC 6962, section 2.1).
constexpr std::byte kLeafTag{0x00};
constexpr std::byte kInnerTag{0x01};

static_assert(std::has_single_bit(kLeafBytes) && kHashPartBytes % kLeafBytes == 0 &&
                  std::has_single_bit(kHashPartBytes),
              "a part is a subtree");

Sha256Hash hash_of(Sha256& hash, std::byte tag, std::span<const std::byte> content) {
  hash.update({&tag, 1});
  hash.update(content);
  return hash.finish();
}

// *hashes[i] = SHA-256(tag || size bytes from contents[i] on), several at a time where the CPU can.
void hash_all(Sha256& hash, std::byte tag, std::size_t size,
              std::span<const std::byte* const> contents, std::span<Sha256Hash* const> hashes) {
  std::size_t done = 0;
  for (const Sha256Lanes& lanes : sha256_lanes())
    for (; done + lanes.count <= contents.size(); done += lanes.count)
      hash_tagged(lanes, tag, size, &contents[done], &hashes[done]);
  for (; done < contents.size(); ++done) *hashes[done] = hash_of(hash, tag, {contents[done], size});
}

}  // namespace

void LeafHasher::add(std::span<const std::byte> leaf, Sha256Hash& hash) {
  if (leaf.size() < kLeafBytes) {
    hash = hash_of(hash_, kLeafTag, leaf);
    return;
  }
  leaves_[waiting_] = leaf.data();
  hashes_[waiting_] = &hash;
  if (++waiting_ == kAtOnce) finish();
}

void LeafHasher::finish() {
  static_assert(kAtOnce == kSha256LanesMax);
  hash_all(hash_, kLeafTag, kLeafBytes, std::span(leaves_, waiting_), std::span(hashes_, waiting_));
  waiting_ = 0;
}

// Each level in the place of the one below: a node is written only once all are read that stood
// there.
Sha256Hash tree_root(std::vector<Sha256Hash> nodes) {
  Sha256 hash;
  if (nodes.empty()) return hash.finish();
  std::vector<const std::byte*> pairs;
  std::vector<Sha256Hash*> parents;
  while (nodes.size() > 1) {
    const std::size_t count = nodes.size() / 2;
    pairs.resize(count);
    parents.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      pairs[i] = std::as_bytes(std::span(&nodes[2 * i], 2)).data();
      parents[i] = &nodes[i];
    }
    hash_all(hash, kInnerTag, 2 * sizeof(Sha256Hash), pairs, parents);
    if (nodes.size() % 2 == 1) nodes[count] = nodes.back();
    nodes.resize(count + nodes.size() % 2);
  }
  return nodes.front();
}

namespace {

Sha256Hash hash_of_part(std::span<const std::byte> bytes) {
  std::vector<Sha256Hash> leaves((bytes.size() + kLeafBytes - 1) / kLeafBytes);
  LeafHasher hasher;
  for (Sha256Hash& leaf : leaves) {
    const auto content = bytes.first(std::min(bytes.size(), kLeafBytes));
    hasher.add(content, leaf);
    bytes = bytes.subspan(content.size());
  }
  hasher.finish();
  return tree_root(std::move(leaves));
}

}  // namespace

Sha256Hash tree_hash(std::span<const std::byte> content) {
  return tree_hash(content.size(), [content](std::uint64_t offset, std::size_t bytes) {
    return hash_of_part(content.subspan(offset, bytes));
  });
}

Sha256Hash tree_hash(std::uint64_t size_bytes, const HashPart& hash_part) {
  constexpr std::size_t kThreadParts = 256;  // 64 MiB: worth a thread
  // Counting the cores opens a file: a twentieth of a chunk's time.
  static const std::size_t kThreadsMax = std::clamp(std::thread::hardware_concurrency(), 1U, 4U);
  std::vector<Sha256Hash> roots((size_bytes + kHashPartBytes - 1) / kHashPartBytes);
  const auto hash_from = [&](std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) {
      const std::uint64_t offset = std::uint64_t{kHashPartBytes} * i;
      roots[i] = hash_part(offset, std::min<std::uint64_t>(kHashPartBytes, size_bytes - offset));
    }
  };
  const std::size_t threads = std::clamp<std::size_t>(roots.size() / kThreadParts, 1, kThreadsMax);
  const auto begin_of = [&](std::size_t thread) { return roots.size() * thread / threads; };
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < threads; ++i)
    // Where no more threads are allowed, it is done when it is waited for.
    others.push_back(std::async(std::launch::async | std::launch::deferred, hash_from, begin_of(i),
                                begin_of(i + 1)));
  hash_from(0, begin_of(1));
  for (std::future<void>& other : others) other.get();
  return tree_root(std::move(roots));
}

}  // namespace causeway::inter
