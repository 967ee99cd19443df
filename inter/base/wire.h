// Little-endian fields of a frame. Reading past the end is the peer's fault and throws LinkError
// (Errc::bad_frame).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "inter/base/link_error.h"
#include "inter/base/little_endian.h"

namespace causeway::inter {

using Bytes = std::vector<std::byte>;

class ByteWriter {
 public:
  explicit ByteWriter(std::size_t capacity_bytes) { bytes_.reserve(capacity_bytes); }

  template <typename Unsigned>
  void number(Unsigned value) {
    bytes(to_little_endian(value));
  }
  void bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void text(const std::string& text) { bytes(std::as_bytes(std::span(text))); }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename Unsigned>
  Unsigned number() {
    return from_little_endian<Unsigned>(bytes(sizeof(Unsigned)));
  }
  std::span<const std::byte> bytes(std::size_t size) {
    if (size > bytes_.size()) {
      throw LinkError(Errc::bad_frame, "invalid frame: its body ends too soon");
    }
    const auto field = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return field;
  }
  bool at_end() const { return bytes_.empty(); }
  std::span<const std::byte> rest() { return bytes(bytes_.size()); }
  void expect_end() const {
    if (!bytes_.empty()) {
      throw LinkError(Errc::bad_frame, "invalid frame: bytes after the end of its body");
    }
  }

 private:
  std::span<const std::byte> bytes_;
};

inline std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace causeway::inter
