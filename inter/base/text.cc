#include "inter/base/text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace causeway::inter {
namespace {

constexpr std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

// Bytes of the UTF-8 character that `text` begins with; 0: it begins with none (RFC 3629).
std::size_t character_bytes(std::string_view text) {
  const std::uint8_t first = byte_at(text, 0);
  if (first < 0x80) return 1;
  const std::size_t size = first < 0xC2   ? 0
                           : first < 0xE0 ? 2
                           : first < 0xF0 ? 3
                           : first < 0xF5 ? 4
                                          : 0;
  if (size == 0 || size > text.size()) return 0;
  // What is too long, a surrogate, or above U+10FFFF shows in the second byte.
  const std::uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte_at(text, 1) < least || byte_at(text, 1) > most) return 0;
  for (std::size_t i = 2; i < size; ++i)
    if ((byte_at(text, i) & 0xC0) != 0x80) return 0;
  return size;
}

bool is_control(std::string_view character) {
  const std::uint8_t first = byte_at(character, 0);
  return first < 0x20 || first == 0x7F || (first == 0xC2 && byte_at(character, 1) < 0xA0);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = character_bytes(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(size, 1));
    const bool kept =
        character == "\n" || character == "\t" || (size > 0 && !is_control(character));
    out += kept ? character : std::string_view("?");
    text.remove_prefix(character.size());
  }
  return out;
}

std::string printable_line(std::string_view text) {
  std::string line = printable(text);
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\t'; }, '?');
  return line;
}

}  // namespace causeway::inter
