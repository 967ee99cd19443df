// Files that appear whole or not at all, and second names of files. What a killed process leaves of
// them has a name of its own, by which a later one finds and removes it. Failures throw
// std::system_error naming the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "inter/base/file.h"

namespace causeway::inter {

// visible: readers find the old content or the new. on_disk: also after a power failure.
enum class Durability { visible, on_disk };

// cache: the kernel keeps what is written, for whoever reads it soon. disk: it does not, where the
// file system allows that. For what is large: a disk may be several times as quick as the kernel
// gets memory that it has not had yet, and everybody else's files stay in the cache.
enum class Through { cache, disk };

// A file that appears under its name only when it is complete; until commit its name has a random
// part and ".tmp" added. Without commit nothing stays, unless the process is killed.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path, Through through = Through::cache);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  // Before the first byte: how large the file will be, at most. The disk is quicker then.
  void reserve(std::uint64_t size);
  void append(std::span<const std::byte> bytes);
  void overwrite(std::uint64_t offset, std::span<const std::byte> bytes);  // of what was appended
  void sync();  // so that a commit on disk takes no time
  void commit(Durability durability);

 private:
  void write_gathered();
  // Of `bytes`, which go to `offset`, as many as are whole pieces, by two threads: one copies a
  // piece while the disk takes the other's. Returns how many bytes that are.
  std::size_t write_pieces(std::uint64_t offset, std::span<const std::byte> bytes);

  File directory_;
  std::filesystem::path name_, temporary_;  // in the directory
  // What is appended and not written yet, on its way to a disk.
  std::optional<PageBuffer> gathered_;
  std::size_t gathered_bytes_ = 0;
  std::optional<File> file_;
  std::uint64_t size_ = 0, reserved_ = 0;
  bool committed_ = false;
};

// Gives `file` the name `second` as well, in place of what stands there; on disk then. Where the
// file system has no second names, `second` becomes a copy.
void give_second_name(const std::filesystem::path& file, const std::filesystem::path& second);

// What killed processes left of an AtomicFile, or of a second name, in `directory`. Those that are
// still being written stay.
void remove_leftovers(const std::filesystem::path& directory);

// The same of this file alone, where its directory is not ours.
void remove_leftovers_of(const std::filesystem::path& file);

}  // namespace causeway::inter
