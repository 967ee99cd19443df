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
std::string to_string(const BlobId& id);  // short form for logs: first 8 hex digits and size

// The unit of sending, acknowledging and storing. On the wire and on disk: do not change.
constexpr std::size_t kChunkBytes = 256U << 10;

// An empty blob has one empty chunk.
constexpr std::uint64_t chunk_count(std::uint64_t size_bytes) {
  return size_bytes == 0 ? 1 : size_bytes / kChunkBytes + (size_bytes % kChunkBytes != 0 ? 1 : 0);
}
// Of chunk number `chunk`: all are full but the last.
constexpr std::size_t chunk_bytes(const BlobId& id, std::uint64_t chunk) {
  const std::uint64_t rest = id.size_bytes - chunk * kChunkBytes;
  return rest < kChunkBytes ? static_cast<std::size_t>(rest) : kChunkBytes;
}

}  // namespace causeway::inter
