// Leaves of a hash tree (hash_tree.h) on a CPU with instructions for SHA-256 (SHA-NI): several at
// once on one core. Each instruction waits for the one before it in its own message, so that a
// second message costs almost no time. Internal to hash_tree.cc, apart from its test.
#pragma once

#include "inter/base/hash_tree.h"

namespace causeway::inter {

bool has_sha256_lanes();  // of this CPU

// hashes[i] = SHA-256(0x00 || kLeafBytes bytes from leaves[i] on). Only where has_sha256_lanes().
void hash_leaves(const std::byte* const (&leaves)[kSha256Lanes],
                 Sha256Hash* const (&hashes)[kSha256Lanes]);

}  // namespace causeway::inter
