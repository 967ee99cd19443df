// What turns one image of a run's weights (weights_image.h) into a later one, in fewer bytes: a
// Zstandard stream (RFC 8878) of
//
//   "causeway patch 1"     16 bytes
//   length of the header   8 bytes, little-endian
//   header                 the later image's
//   differences            for each 2^20 weights, the last ones perhaps fewer: the low bytes of
//                          their differences, then the high bytes
//
// Bits of bf16 are in the order of the numbers that they stand for once the bits of negative ones
// are inverted, and the sign bit of the others is. The difference is between both so ordered,
// modulo 2^16, the later less the earlier; as a signed number d it is stored as 2 d, or as -2 d - 1
// if it is negative. So a weight that moved by few steps of its precision has a high byte of 0.
#pragma once

#include <filesystem>

namespace causeway::run {

// Throws std::system_error: diloco::Errc::malformed if one of them is no image, or they have
// different numbers of weights; or naming a file that fails. `patch` is whole, or not there.
void write_weights_patch(const std::filesystem::path& from, const std::filesystem::path& to,
                         const std::filesystem::path& patch);

// Writes the later image. `patch` is a stranger's: throws diloco::Errc::malformed if it is none for
// `from`. Whether the result is the image that was wanted, its hash tells. Holds a small part of
// each in memory at a time.
void apply_weights_patch(const std::filesystem::path& from, const std::filesystem::path& patch,
                         const std::filesystem::path& to);

}  // namespace causeway::run
