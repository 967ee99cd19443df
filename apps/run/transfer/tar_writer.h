// Writes archives as `tar` does, over libarchive: regular files alone, one after the other.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>

#include "apps/run/transfer/archive_ptr.h"

namespace causeway::run {

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
