// SHA-256 of several leaves or nodes of a hash tree (hash_tree.h) at once, on one core. Each
// instruction waits for the one before it in its own message, so that a second message costs little
// time. Internal to hash_tree.cc, apart from its test.
#pragma once

#include <cstddef>
#include <span>

#include "inter/base/hash.h"
#include "inter/base/sha256_state.h"

namespace causeway::inter {

inline constexpr std::size_t kSha256LanesMax = 16;

// Adds `blocks` blocks of 64 bytes to each state: to states[i] those from from[i] on.
using AddBlocks = void (*)(Sha256State* states, const std::byte* const* from, std::size_t blocks);

struct Sha256Lanes {
  std::size_t count;  // states at a time, at most kSha256LanesMax
  AddBlocks add_blocks;
};

std::span<const Sha256Lanes> sha256_lanes();  // what this CPU has, the most lanes first

// *hashes[i] = SHA-256(tag || `size` bytes from contents[i] on), for as many as there are lanes.
// `size`: a multiple of 64.
void hash_tagged(const Sha256Lanes& lanes, std::byte tag, std::size_t size,
                 const std::byte* const* contents, Sha256Hash* const* hashes);

// For x86-64; each nothing if this CPU has no such instructions.
AddBlocks sha256_two_lanes();      // SHA-NI
AddBlocks sha256_sixteen_lanes();  // AVX-512

}  // namespace causeway::inter
