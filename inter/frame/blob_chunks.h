// Bulk data between coordinators: opaque, content-addressed bytes, moved and stored in chunks.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace causeway::inter {

// The hash tree's root over the content (inter/base/hash_tree.h), and its length.
struct BlobId {
  std::array<std::uint8_t, 32> hash{};
  std::uint64_t size_bytes = 0;
  auto operator<=>(const BlobId&) const = default;
};
// No blob is larger, so that a map of its chunks fits in a frame. Peers may claim any size: to be
// checked where an id comes in.
constexpr std::uint64_t kBlobBytesMax = 1ULL << 40;
std::string to_string(const BlobId& id);  // short form for logs: first 8 hex digits and size

// The unit of sending, acknowledging and storing. Smaller in small blobs, so that there are enough
// for many connections. On the wire and on disk: do not change.
constexpr std::size_t kChunkBytesMax = 256U << 10;
constexpr std::size_t kSmallChunkBytes = 64U << 10;
constexpr std::uint64_t kSmallBlobBytes = 16U << 20;  // the first that is not small
constexpr std::size_t chunk_size(std::uint64_t size_bytes) {
  return size_bytes < kSmallBlobBytes ? kSmallChunkBytes : kChunkBytesMax;
}

// An empty blob has one empty chunk.
constexpr std::uint64_t chunk_count(std::uint64_t size_bytes) {
  const std::size_t size = chunk_size(size_bytes);
  return size_bytes == 0 ? 1 : size_bytes / size + (size_bytes % size != 0 ? 1 : 0);
}
constexpr std::uint64_t chunk_offset(const BlobId& id, std::uint64_t chunk) {
  return chunk * chunk_size(id.size_bytes);
}
// Of chunk number `chunk`: all are full but the last.
constexpr std::size_t chunk_bytes(const BlobId& id, std::uint64_t chunk) {
  const std::uint64_t rest = id.size_bytes - chunk_offset(id, chunk);
  const std::size_t size = chunk_size(id.size_bytes);
  return rest < size ? static_cast<std::size_t>(rest) : size;
}

// Which chunks of a blob: a set of small numbers as a bitmap.
enum class Order : std::uint8_t { ascending = 0, descending = 1 };  // values are on the wire

class ChunkMap {
 public:
  ChunkMap() = default;
  // All of `chunks` chunks, or none.
  explicit ChunkMap(std::uint64_t chunks, bool all = false);

  // The inverse of bytes(). Nothing if the length does not fit the number of chunks, or bits are
  // set beyond it.
  static std::optional<ChunkMap> parse(std::uint64_t chunks, std::span<const std::byte> bytes);
  std::vector<std::byte> bytes() const;  // bit chunk % 8 of byte chunk / 8
  static constexpr std::uint64_t byte_count(std::uint64_t chunks) {
    return chunks / 8 + (chunks % 8 != 0 ? 1 : 0);
  }

  std::uint64_t size() const { return size_; }    // of the blob, in chunks
  std::uint64_t count() const { return count_; }  // of chunks in the set
  bool all() const { return count_ == size_; }
  bool none() const { return count_ == 0; }
  bool has(std::uint64_t chunk) const { return (words_[chunk / 64] >> (chunk % 64) & 1) != 0; }
  void insert(std::uint64_t chunk);
  void erase(std::uint64_t chunk);
  ChunkMap inverse() const;

  // The next chunk in the set from `start` on, `start` included; after the end it goes on at the
  // other one.
  std::optional<std::uint64_t> next(std::uint64_t start, Order order) const;

 private:
  std::optional<std::uint64_t> next_up(std::uint64_t begin, std::uint64_t end) const;
  std::optional<std::uint64_t> next_down(std::uint64_t last) const;

  std::uint64_t size_ = 0;
  std::uint64_t count_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace causeway::inter
