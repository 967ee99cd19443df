// Leaves of a state's Merkle tree (digest.h) on a CPU with instructions for SHA-256 (SHA-NI):
// several at once on one core. Each instruction waits for the one before it in its own message, so
// that a second message costs almost no time. Internal to digest.cc, apart from its test.
#pragma once

#include <cstddef>

#include "diloco/maths/digest.h"

namespace causeway::diloco {

inline constexpr std::size_t kSha256Lanes = 2;

bool has_sha256_lanes();  // of this CPU

// digests[i] = SHA-256(0x00 || the bytes of kLeafElements values from leaves[i] on). Only where
// has_sha256_lanes().
void hash_leaves(const float* const (&leaves)[kSha256Lanes],
                 Digest* const (&digests)[kSha256Lanes]);

}  // namespace causeway::diloco
