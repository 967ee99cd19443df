// Text for messages: lists, hexadecimal digits, shares, and what others wrote as a terminal or a
// log may show it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace causeway::inter {

// Lists in messages: "a, b, c".
inline void append_item(std::string& list, std::string_view item) {
  list += list.empty() ? "" : ", ";
  list += item;
}

// Shares in log lines.
inline std::string percent(std::uint64_t part, std::uint64_t whole) {
  return fmt::format("{} %", whole == 0 ? 100 : part * 100 / whole);
}

// Bytes as text.
inline std::string hex(std::span<const std::uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// Text that others wrote (peers, files, archives, models), as a terminal or a log may show it.
// '?' for each control character (those of C0 and C1, and delete), and for each byte that is not
// UTF-8. Ends of lines and tabs stay.
std::string printable(std::string_view text);
// The same on one line: '?' for ends of lines and tabs too.
std::string printable_line(std::string_view text);

}  // namespace causeway::inter
