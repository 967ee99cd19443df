// Read-only bytes of a file, mapped while this lives.
#pragma once

#include <cstddef>
#include <span>

namespace causeway::diloco {

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

}  // namespace causeway::diloco
