// Reads archives of `tar`, over libarchive: regular files alone, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "apps/run/transfer/archive_ptr.h"

namespace causeway::run {

class TarReader {
 public:
  // "-": standard input. Throws RunError naming it if it cannot be opened, or is no archive.
  explicit TarReader(std::filesystem::path path);

  struct File {
    std::string name;
    std::uint64_t size = 0;
  };
  // Nothing at the end. Throws RunError also for what is no regular file.
  std::optional<File> next();
  // Of that file; 0 at its end.
  std::size_t read(std::span<std::byte> bytes);

 private:
  [[noreturn]] void refuse() const;

  std::filesystem::path path_;
  ArchivePtr archive_;
};

}  // namespace causeway::run
