// Bytes in memory that nobody can change any more, so that another process can be handed them
// without a copy. Copies of this share them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "diloco/files/file_io.h"

namespace causeway::diloco {

// Read-only bytes of a file, mapped while this lives.
class MappedBytes {
 public:
  // Takes the descriptor. Throws Errc::malformed for a file of fewer bytes.
  MappedBytes(int fd, std::size_t size);
  MappedBytes(MappedBytes&&) noexcept;
  MappedBytes& operator=(MappedBytes&&) noexcept;
  ~MappedBytes();
  std::span<const std::byte> bytes() const;

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

class SealedBytes {
 public:
  SealedBytes() = default;  // none
  // The pieces, one after the other. Throws std::system_error if there is no memory for them.
  explicit SealedBytes(std::span<const std::span<const std::byte>> pieces);
  explicit SealedBytes(std::span<const std::byte> bytes) : SealedBytes(std::span(&bytes, 1)) {}

  std::span<const std::byte> bytes() const;
  std::size_t size() const { return bytes().size(); }
  bool empty() const { return bytes().empty(); }

  // A file that has them, sealed; an empty one if there are none.
  Descriptor share() const;

 private:
  struct Memory;
  std::shared_ptr<const Memory> memory_;
};

}  // namespace causeway::diloco
