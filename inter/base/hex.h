// Bytes as text.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace causeway::inter {

inline std::string hex(std::span<const std::uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace causeway::inter
