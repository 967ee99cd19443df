// A file mapped read-only for as long as the object lives. Whoever shortens it meanwhile kills the
// reader (SIGBUS): data files are replaced by rename, never rewritten in place.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

namespace causeway::intra {

class MappedFile {
 public:
  // Throws Errc::bad_data naming the file if it cannot be opened, is not a regular file, or is
  // empty.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace causeway::intra
