// Small codes in bytes: two of four bits, or five of base three. Unpacking untrusted bytes gives
// false if unused places are not zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway::compression {

// The first of two codes in the low half.
struct Nibbles {
  static constexpr std::size_t bytes(std::size_t count) { return (count + 1) / 2; }
  static void pack(std::span<const std::uint8_t> codes, std::byte* out);
  static bool unpack(const std::byte* bytes, std::span<std::uint8_t> codes);
};

// c0 + 3 c1 + 9 c2 + 27 c3 + 81 c4.
struct BaseThree {
  static constexpr std::size_t kPerByte = 5;
  static constexpr std::size_t bytes(std::size_t count) {
    return (count + kPerByte - 1) / kPerByte;
  }
  static void pack(std::span<const std::uint8_t> codes, std::byte* out);
  static bool unpack(const std::byte* bytes, std::span<std::uint8_t> codes);
};

}  // namespace causeway::compression
