// Files over POSIX calls. Failures throw std::system_error naming the path. Whatever creates a file
// refuses a symbolic link in its place: somebody else may have put it there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <system_error>

namespace causeway::inter {

inline constexpr std::size_t kPageBytes = 4096;

// Memory to read files into, at the beginning of a page: the kernel copies four times as slowly to
// a few bytes behind one, where malloc puts large blocks (seen on Zen 3).
class PageBuffer {
 public:
  explicit PageBuffer(std::size_t size)
      : memory_(static_cast<std::byte*>(::operator new(size, kPage))), size_(size) {}
  std::span<std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  static constexpr std::align_val_t kPage{kPageBytes};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kPage); }
  };
  std::unique_ptr<std::byte[], Free> memory_;
  std::size_t size_;
};

class File {
 public:
  // `flags` and `mode` as open(2) takes them.
  File(std::filesystem::path path, int flags, unsigned mode = 0644);
  // `name` in `directory`, whatever stands at that directory's path by now.
  File(const File& directory, const std::filesystem::path& name, int flags, unsigned mode = 0644);
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  // The disk takes up what is large while the rest of it is still to come. `following`: bytes that
  // come after these, for the message where there is no room. Several threads may write.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes,
                std::uint64_t following = 0);
  // Fills `bytes` up to the end of the file; returns how many.
  std::size_t read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  void resize(std::uint64_t size);  // new bytes are 0 and take no room
  // A hint, for a file that is empty: takes room for so many bytes where that can be, and the file
  // has this size then.
  void reserve(std::uint64_t size);
  void sync();
  // The disk begins with what the kernel holds, so that a later sync() is short.
  void begin_sync() noexcept;
  // Who writes a large file calls that each time so much more is there.
  static constexpr std::uint64_t kSyncBytes = 8U << 20;
  // From now on writes go past the kernel's cache (O_DIRECT), or through it again. Past it memory,
  // offset and size are multiples of kPageBytes. False: the file system has no way past it.
  bool pass_cache(bool past) noexcept;
  std::optional<std::uint64_t> regular_size() const;  // nothing: it is something else
  bool has_name() const noexcept;                     // false: it was removed
  // False: another descriptor holds it, here or elsewhere. It ends with this descriptor.
  bool lock();
  // The same, once nobody else holds it. At once, and without it, where the file system gives none:
  // NFS for what was opened only to be read.
  void wait_for_lock() noexcept;
  // Of a directory: gives what is in it another name, or no name.
  void rename(const std::filesystem::path& from, const std::filesystem::path& to);
  // Of a directory: gives a file another name here, which is free. False: that cannot be.
  bool link(const std::filesystem::path& file, const std::filesystem::path& name) noexcept;
  void remove(const std::filesystem::path& name) noexcept;
  // Whether the file has one name, and no other descriptor or mapping in any process. False also on
  // file systems that cannot be asked. For a File that only reads.
  bool is_nobody_elses() const;

 private:
  [[noreturn]] void fail(const char* operation, std::uint64_t bytes = 0) const;

  std::filesystem::path path_;
  int descriptor_;
  std::atomic<bool> past_cache_ = false;
};

// In words, of a write that failed with `error` as a file would be larger than this process may
// make one: what to raise. Empty for other errors.
std::string file_limit(int error);
// In words, of a write or a new file that failed with `error` for lack of room: what was to be
// written and what is free on the disk of `path`, or as file_limit. Empty for other errors.
std::string room_left(int error, const std::filesystem::path& path, std::uint64_t bytes);

// The disk is full, or our share of it, or the file has the size that a limit allows (ulimit -f).
bool is_out_of_room(const std::system_error& error);

// Of the disk, the network share or this host, such as a read error or too many open files: another
// path would not help, and the same one may work later.
bool fails_for_now(const std::error_code& code);

// The part of `path` that is a link to what is not there, such as a disk that is still to be
// mounted, in words. Empty: none is. Whoever makes a directory there hears no more than "File
// exists".
std::string dangling_link_in(const std::filesystem::path& path);

// As std::filesystem::create_directories, but those that it makes are their owner's alone, whatever
// the umask. Throws std::filesystem::filesystem_error.
void create_private_directories(const std::filesystem::path& directory);

// The whole of a file that somebody named. Throws std::runtime_error, which says why, if it cannot
// be read, is no regular file (a device or a pipe may never end), or has more than `bytes_max`
// bytes.
std::string read_regular_file(const std::filesystem::path& path, std::size_t bytes_max);

// Makes renames and new files in `directory` durable.
void sync_directory(const std::filesystem::path& directory);

}  // namespace causeway::inter
