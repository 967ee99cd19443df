// Archives of `tar`, over libarchive: regular files alone, one after the other.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

struct archive;

namespace causeway::run {

inline constexpr std::size_t kTransferBytes = 1 << 20;  // read and written at once

struct ArchiveDeleter {
  void operator()(::archive* handle) const;
};
using ArchivePtr = std::unique_ptr<::archive, ArchiveDeleter>;

std::string error_of(::archive* handle);  // the newest, in words

class TarReader {
 public:
  // "-": standard input. Throws ConfigError naming it if it cannot be opened, and what
  // next() does.
  explicit TarReader(std::filesystem::path path);

  struct File {
    std::string name;
    std::uint64_t size = 0;
  };
  // Nothing at the end. Throws ArchiveError if the bytes are no archive, or not a whole one, or the
  // next file is no regular one; std::system_error if the disk cannot be read.
  std::optional<File> next();
  // Of that file; 0 at its end.
  std::size_t read(std::span<std::byte> bytes);

 private:
  [[noreturn]] void refuse() const;

  std::filesystem::path path_;
  ArchivePtr archive_;
  bool begun_ = false;  // its first file was there
};

class TarWriter {
 public:
  using Sink = std::function<void(std::span<const std::byte>)>;
  // What `sink` throws, the calls below throw.
  explicit TarWriter(Sink sink);
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;

  void begin(const std::string& name, std::uint64_t size);
  void write(std::span<const std::byte> bytes);
  void finish();

 private:
  static ssize_t take(::archive* handle, void* self, const void* bytes, std::size_t size);
  void check(int result);

  Sink sink_;
  std::exception_ptr failure_;
  ArchivePtr archive_;
};

}  // namespace causeway::run
