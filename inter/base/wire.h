// Little-endian fields of a frame. Reading past the end is the peer's fault and throws LinkError
// (Errc::bad_frame).
#pragma once

#include <array>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inter/base/error.h"

namespace causeway::inter {

// Numbers as bytes, the lowest first: so every frame and file has them.
template <std::unsigned_integral Number>
constexpr std::array<std::byte, sizeof(Number)> to_little_endian(Number value) {
  std::array<std::byte, sizeof(Number)> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(value >> (8 * i));
  return bytes;
}

// The number that `bytes` begin with.
template <std::unsigned_integral Number>
constexpr Number from_little_endian(std::span<const std::byte> bytes) {
  assert(bytes.size() >= sizeof(Number));
  Number value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i)
    value |= static_cast<Number>(static_cast<Number>(bytes[i]) << (8 * i));
  return value;
}

template <std::unsigned_integral Number>
Number from_little_endian(std::string_view bytes) {
  return from_little_endian<Number>(std::as_bytes(std::span(bytes)));
}

template <std::unsigned_integral Number>
std::string little_endian_text(Number value) {
  const auto bytes = to_little_endian(value);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

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
    if (size > bytes_.size())
      throw LinkError(Errc::bad_frame, "invalid frame: its body ends too soon");
    const auto field = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return field;
  }
  bool at_end() const { return bytes_.empty(); }
  std::span<const std::byte> rest() { return bytes(bytes_.size()); }
  void expect_end() const {
    if (!bytes_.empty())
      throw LinkError(Errc::bad_frame, "invalid frame: bytes after the end of its body");
  }

 private:
  std::span<const std::byte> bytes_;
};

inline std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace causeway::inter
