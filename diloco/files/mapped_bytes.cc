#include "diloco/files/mapped_bytes.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "diloco/files/descriptor.h"
#include "diloco/files/error.h"
#include "diloco/files/file_io.h"

namespace causeway::diloco {

MappedBytes::MappedBytes(int fd, std::size_t size) : size_(size) {
  const Descriptor owned(fd);
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno("fstat", "received bytes");
  // Reading past the end of a mapped file kills the process.
  if (static_cast<std::uint64_t>(status.st_size) < size) {
    throw std::system_error(Errc::malformed, "received a file of " +
                                                 std::to_string(status.st_size) +
                                                 " bytes instead of " + std::to_string(size));
  }
  if (size == 0) return;
  data_ = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data_ == MAP_FAILED) throw_errno("mmap", "received bytes");
}

MappedBytes::MappedBytes(MappedBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedBytes& MappedBytes::operator=(MappedBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedBytes::~MappedBytes() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

std::span<const std::byte> MappedBytes::bytes() const {
  return {static_cast<const std::byte*>(data_), size_};
}

}  // namespace causeway::diloco
