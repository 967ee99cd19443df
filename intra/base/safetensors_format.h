// What the writer and the reader of safetensors files share: uint64 little-endian header length,
// JSON header, tensors.
#pragma once

#include <bit>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace causeway::intra {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

inline constexpr std::size_t kSafetensorsLengthBytes = 8;
// The bound of the reference implementation.
inline constexpr std::size_t kSafetensorsHeaderBytesMax = 100'000'000;
// Our own additions are metadata, so that other readers ignore them. Two of them say that a file is
// ours, so that no damage to one name makes it look like another program's.
inline constexpr std::string_view kSafetensorsOwnPrefix = "causeway.";
inline constexpr std::string_view kSafetensorsFormatKey = "causeway.format";
inline constexpr std::string_view kSafetensorsFormat =
    "2";  // 1, without this key, had tensor hashes alone
inline constexpr std::string_view kSafetensorsHeaderKey = "causeway.header";
// This and a tensor's name is the key of the SHA-256 of its bytes.
inline constexpr std::string_view kSafetensorsHashPrefix = "causeway.sha256.";

// The SHA-256, in hex, of a header's length (8 bytes) and its text, in which the digits of this
// hash count as zeros; and the one that the text says it is. Nothing if it says none.
struct HeaderHash {
  std::size_t place = 0;  // of the digits in the text
  std::string said, computed;
};
std::optional<HeaderHash> header_hash(std::string text);

}  // namespace causeway::intra
