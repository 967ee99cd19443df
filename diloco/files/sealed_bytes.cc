#include "diloco/files/sealed_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "inter/base/file.h"

namespace causeway::diloco {

MappedBytes::MappedBytes(int fd, std::size_t size) : size_(size) {
  const Descriptor owned(fd);
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno("fstat", "received bytes");
  // Reading past the end of a mapped file kills the process.
  if (static_cast<std::uint64_t>(status.st_size) < size) {
    throw std::system_error(
        Errc::malformed,
        fmt::format("received a file of {} bytes instead of {}", status.st_size, size));
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

namespace {

constexpr const char* kWhere = "payload (in memory)";

// Takes as many as the kernel does in one call off the front of `pieces`.
void write_some(int fd, std::vector<iovec>& pieces, std::size_t& first) {
  const auto count = std::min<std::size_t>(pieces.size() - first, IOV_MAX);
  const ssize_t written = ::writev(fd, &pieces[first], static_cast<int>(count));
  if (written < 0 && errno == EINTR) return;
  if (written < 0) {
    const int error = errno;
    throw std::system_error(error, std::generic_category(),
                            std::string("write ") + kWhere + inter::file_limit(error));
  }
  auto left = static_cast<std::size_t>(written);
  while (first < pieces.size() && left >= pieces[first].iov_len) left -= pieces[first++].iov_len;
  if (left == 0) return;
  pieces[first].iov_base = static_cast<std::byte*>(pieces[first].iov_base) + left;
  pieces[first].iov_len -= left;
}

// Writing makes the pages several times faster than touching them in a mapping.
void write_all(int fd, std::span<const std::span<const std::byte>> pieces) {
  std::vector<iovec> left;
  for (const auto piece : pieces) {
    if (!piece.empty()) left.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
  }
  for (std::size_t first = 0; first < left.size();) write_some(fd, left, first);
}

Descriptor make_sealed(std::span<const std::span<const std::byte>> pieces) {
  Descriptor fd(::memfd_create("payload", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.get() < 0) throw_errno("memfd_create", kWhere);
  write_all(fd.get(), pieces);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0) {
    throw_errno("seal", kWhere);
  }
  return fd;
}

Descriptor duplicate(int fd) {
  Descriptor copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (copy.get() < 0) throw_errno("duplicate", kWhere);
  return copy;
}

}  // namespace

struct SealedBytes::Memory {
  Descriptor file;
  MappedBytes mapped;
};

SealedBytes::SealedBytes(std::span<const std::span<const std::byte>> pieces) {
  std::size_t size = 0;
  for (const auto piece : pieces) size += piece.size();
  if (size == 0) return;
  Descriptor file = make_sealed(pieces);
  MappedBytes mapped(duplicate(file.get()).release(), size);
  memory_ = std::make_shared<const Memory>(Memory{std::move(file), std::move(mapped)});
}

std::span<const std::byte> SealedBytes::bytes() const {
  return memory_ ? memory_->mapped.bytes() : std::span<const std::byte>();
}

Descriptor SealedBytes::share() const {
  return memory_ ? duplicate(memory_->file.get()) : make_sealed({});
}

}  // namespace causeway::diloco
