// Small files of bytes that say themselves whether they are still what was written: what a disk
// flips, tears or takes from another file is noticed when it is read.
//
//   "CWF1", XXH3 of the content (8 bytes, little-endian), content
//
// The digit is the version. A file of before, which begins with the tag of a message's first field,
// is taken as it is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace causeway::diloco {

std::string with_checksum(std::string_view content);
// None if the bytes are damaged, or there are none.
std::optional<std::string> without_checksum(std::string_view bytes);

// The XXH3 of the content in 16 hex digits.
std::string hex_checksum(std::string_view content);

// A line of text without spaces, the line "format 1", and the line "xxh3 " with 16 hex digits,
// which are the XXH3 of the two before it, the newline between them included. Earlier versions
// wrote the text alone, or with its checksum.
std::string line_with_checksum(std::string_view text);
std::optional<std::string> line_without_checksum(std::string_view bytes);

// A JSON text with the members "format": kJsonFormat and "xxh3": kNoChecksum. The latter becomes 16
// hex digits, the XXH3 of the text in which these digits are zeros. So two names say that a text
// has a checksum, and no flipped bit makes it one of those from before, which have neither.
inline constexpr int kJsonFormat = 1;
inline constexpr const char* kNoChecksum = "0000000000000000";
std::string json_with_checksum(std::string text);
enum class Checksum { none, right, wrong };
Checksum checksum_of_json(std::string text);

}  // namespace causeway::diloco
