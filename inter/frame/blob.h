// Bulk data between coordinators: opaque, content-addressed bytes, moved and stored in chunks.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace causeway::inter {

// SHA-256 of the content, and its length.
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

}  // namespace causeway::inter
