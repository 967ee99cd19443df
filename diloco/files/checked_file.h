// Small files of bytes that say themselves whether they are still what was written: what a disk
// flips, tears or takes from another file is noticed when it is read.
//
//   "CWF1", XXH3 of the content (8 bytes, little-endian), content
//
// A file of before, which begins with the tag of a message's first field, is taken as it is.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace causeway::diloco {

std::string with_checksum(std::string_view content);
// None if the bytes are damaged, or there are none.
std::optional<std::string> without_checksum(std::string_view bytes);

// One line of text without spaces, and behind it one with the checksum, which may be missing.
std::string line_with_checksum(std::string_view text);
std::optional<std::string> line_without_checksum(std::string_view bytes);

}  // namespace causeway::diloco
