// A file mapped read-only for as long as the object lives. Whoever writes into it meanwhile changes
// what is read, and whoever shortens it kills the reader (SIGBUS): data files are replaced by
// rename, never rewritten in place.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

namespace causeway::intra {

// What changes with a file's bytes: whoever writes to it moves the times, and nobody can set the
// last one.
struct FileStamp {
  std::uint64_t inode = 0, size = 0;
  std::int64_t modified_ns = 0, changed_ns = 0;  // since 1970
  auto operator<=>(const FileStamp&) const = default;
  // Of one file: somebody wrote to it meanwhile, or says so (touch). Owners, names and rights may
  // change.
  bool was_written_since(const FileStamp& before) const {
    return size != before.size || modified_ns != before.modified_ns;
  }
};
// Throws Errc::bad_data naming the file.
FileStamp stamp_of(int descriptor, const std::filesystem::path& path);

// Which file it is, by whatever name. Not the inode alone: some file systems give the same to many.
struct FileIdentity {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t modified_ns = 0;
  auto operator<=>(const FileIdentity&) const = default;
};
// None if there is no file, or it cannot be examined.
std::optional<FileIdentity> identity_of(const std::filesystem::path& path);

class MappedFile {
 public:
  // Throws Errc::bad_data naming the file if it cannot be opened, is not a regular file, or is
  // empty.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  const std::filesystem::path& path() const;
  std::span<const std::byte> bytes() const;
  const FileStamp& stamp() const;  // when it was opened
  // What has its name now; none if that cannot be examined. With another file there, the bytes here
  // are still those of before.
  struct Now {
    FileStamp stamp;
    bool is_another_file = false;
  };
  std::optional<Now> now() const;

  struct Mapping;

 private:
  std::unique_ptr<Mapping> mapping_;
};

// For messages about a file that changed under its reader.
inline constexpr const char* kHowToReplaceData =
    "Replace data files by renaming, do not write into them (mv, not cp). The next start reads "
    "what is there then";

// What is mapped at this address; no path: nothing is. A signal handler may call it.
struct MappedAt {
  const char* path = nullptr;
  std::size_t bytes = 0;  // of the file when it was opened
};
MappedAt mapped_at(const void* address);

}  // namespace causeway::intra
