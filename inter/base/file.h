// Files that must be durable or private, over POSIX calls. Failures throw std::system_error naming
// the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <system_error>

namespace causeway::inter {

class File {
 public:
  // `flags` and `mode` as open(2) takes them.
  File(std::filesystem::path path, int flags, unsigned mode = 0644);
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // Fills `bytes` up to the end of the file; returns how many.
  std::size_t read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  void resize(std::uint64_t size);  // new bytes are 0 and take no room
  void sync();
  // Whether the file has one name, and no other descriptor or mapping in any process. False also on
  // file systems that cannot be asked. For a File that only reads.
  bool is_nobody_elses() const;

 private:
  [[noreturn]] void fail(const char* operation) const;

  std::filesystem::path path_;
  int descriptor_;
};

// The disk is full, or our share of it.
bool is_out_of_room(const std::system_error& error);

// visible: readers find the old content or the new. on_disk: also after a power failure.
enum class Durability { visible, on_disk };

// A file that appears under its name only when it is complete; until commit it has ".tmp" added.
// Without commit nothing stays.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void append(std::span<const std::byte> bytes);
  void commit(Durability durability);

 private:
  std::filesystem::path path_, temporary_;
  File file_;
  std::uint64_t size_ = 0;
  bool committed_ = false;
};

// Makes renames and new files in `directory` durable.
void sync_directory(const std::filesystem::path& directory);

}  // namespace causeway::inter
