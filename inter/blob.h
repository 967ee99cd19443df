// Bulk data between coordinators: opaque, content-addressed bytes.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace causeway::inter {

class Sha256;

// SHA-256 of the content, and its length.
struct BlobId {
  std::array<std::uint8_t, 32> hash{};
  std::uint64_t size_bytes = 0;
  auto operator<=>(const BlobId&) const = default;
};
std::string to_string(const BlobId& id);  // short form for logs: first 8 hex digits and size

// The spool: blobs on disk in one directory, partial ones included, so that a restart keeps what
// had arrived. A blob counts with its whole size against the capacity from its first byte on, so
// that what was begun can be finished. One thread. A storage failure throws std::system_error.
class Spool {
 public:
  // Opens or creates the directory; blobs found there are kept (complete ones are re-hashed, bad
  // ones deleted).
  Spool(std::filesystem::path directory, std::uint64_t capacity_bytes);

  BlobId put(std::span<const std::byte>
                 bytes);             // stores and syncs to disk; Errc::spool_full over capacity
  bool has(const BlobId& id) const;  // complete and hash-checked
  std::uint64_t received_bytes(
      const BlobId& id) const;  // prefix already here, 0 if none, size if complete

  // Appends to a partial blob. `offset` must equal received_bytes(id). Returns true when this
  // completed it and the hash is right; a wrong hash deletes the partial and throws
  // Errc::hash_mismatch. Throws Errc::spool_full over capacity.
  bool append(const BlobId& id, std::uint64_t offset, std::span<const std::byte> bytes);

  // Up to `size` bytes from `offset` of a complete blob.
  std::vector<std::byte> read(const BlobId& id, std::uint64_t offset, std::size_t size) const;
  std::filesystem::path path(const BlobId& id) const;  // of a complete blob
  void remove(const BlobId& id);                       // no error if absent
  std::vector<BlobId> complete() const;
  std::uint64_t stored_bytes() const;  // on disk, partial blobs with what they have

 private:
  struct Entry {
    std::uint64_t received_bytes = 0;
    bool complete = false;
    std::shared_ptr<Sha256>
        hash;  // of a partial blob: its first received_bytes; made at the first append
  };
  std::filesystem::path complete_path(const BlobId& id) const;
  std::filesystem::path partial_path(const BlobId& id) const;
  void adopt(const std::filesystem::path& file);
  void adopt_complete(const BlobId& id);
  void adopt_partial(const BlobId& id);
  void reserve(const BlobId& id) const;
  void finish(const BlobId& id);
  std::shared_ptr<Sha256> hash_file(const std::filesystem::path& file, std::uint64_t size) const;

  std::filesystem::path directory_;
  std::uint64_t capacity_bytes_;
  std::map<BlobId, Entry> entries_;
};

}  // namespace causeway::inter
