// Archives of libarchive.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

struct archive;

namespace causeway::run {

inline constexpr std::size_t kTransferBytes = 1 << 20;  // read and written at once

struct ArchiveDeleter {
  void operator()(::archive* handle) const;
};
using ArchivePtr = std::unique_ptr<::archive, ArchiveDeleter>;

std::string error_of(::archive* handle);  // the newest, in words

}  // namespace causeway::run
