// What the writer and the reader of safetensors files share: uint64 little-endian header length,
// JSON header, tensors.
#pragma once

#include <bit>
#include <cstddef>
#include <string_view>

namespace causeway::intra {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

inline constexpr std::size_t kSafetensorsLengthBytes = 8;
// The bound of the reference implementation.
inline constexpr std::size_t kSafetensorsHeaderBytesMax = 100'000'000;
// Our own addition, as metadata so that other readers ignore it: this and a tensor's name is the
// key of the SHA-256 of its bytes.
inline constexpr std::string_view kSafetensorsHashPrefix = "causeway.sha256.";

}  // namespace causeway::intra
