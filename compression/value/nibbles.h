// Codes of four bits, two in a byte, the first in the low half.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway::compression {

struct Nibbles {
  static constexpr std::size_t bytes(std::size_t count) { return (count + 1) / 2; }

  static void pack(std::span<const std::uint8_t> codes, std::byte* out) {
    const std::size_t pairs = codes.size() / 2;
    for (std::size_t i = 0; i < pairs; ++i) {
      out[i] = static_cast<std::byte>(codes[2 * i] | codes[2 * i + 1] << 4);
    }
    if (codes.size() % 2 != 0) out[pairs] = static_cast<std::byte>(codes.back());
  }

  // Untrusted bytes: false if an unused half is not zero.
  static bool unpack(const std::byte* bytes, std::span<std::uint8_t> codes) {
    const std::size_t pairs = codes.size() / 2;
    for (std::size_t i = 0; i < pairs; ++i) {
      const auto byte = std::to_integer<std::uint8_t>(bytes[i]);
      codes[2 * i] = byte & 0xF;
      codes[2 * i + 1] = byte >> 4;
    }
    if (codes.size() % 2 == 0) return true;
    codes.back() = std::to_integer<std::uint8_t>(bytes[pairs]);
    return codes.back() <= 0xF;
  }
};

}  // namespace causeway::compression
