// Numbers as bytes, the lowest first: so every frame and file has them.
#pragma once

#include <array>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace causeway::inter {

template <std::unsigned_integral Number>
constexpr std::array<std::byte, sizeof(Number)> to_little_endian(Number value) {
  std::array<std::byte, sizeof(Number)> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(value >> (8 * i));
  }
  return bytes;
}

// The number that `bytes` begin with.
template <std::unsigned_integral Number>
constexpr Number from_little_endian(std::span<const std::byte> bytes) {
  assert(bytes.size() >= sizeof(Number));
  Number value = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    value |= static_cast<Number>(static_cast<Number>(bytes[i]) << (8 * i));
  }
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

}  // namespace causeway::inter
