// A file mapped read-only for as long as the object lives. Whoever shortens it meanwhile kills the
// reader (SIGBUS): data files are replaced by rename, never rewritten in place.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace causeway::intra {

// What changes with a file's bytes: whoever writes to it moves the times, and nobody can set the
// last one.
struct FileStamp {
  std::uint64_t inode = 0, size = 0;
  std::int64_t modified_ns = 0, changed_ns = 0;  // since 1970
  auto operator<=>(const FileStamp&) const = default;
};
// Throws Errc::bad_data naming the file.
FileStamp stamp_of(int descriptor, const std::filesystem::path& path);

class MappedFile {
 public:
  // Throws Errc::bad_data naming the file if it cannot be opened, is not a regular file, or is
  // empty.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : path_(std::move(other.path_)),
        bytes_(std::exchange(other.bytes_, {})),
        stamp_(other.stamp_) {}
  MappedFile& operator=(MappedFile&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  const FileStamp& stamp() const { return stamp_; }  // when it was opened

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
  FileStamp stamp_;
};

}  // namespace causeway::intra
