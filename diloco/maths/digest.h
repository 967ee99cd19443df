// State digests: a SHA-256 Merkle tree over a flat fp32 span, one leaf per 4,096 elements
// (little-endian bytes). The root does not depend on the number of workers, and a differing leaf
// names the tensor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace causeway::diloco {

using Digest = std::array<std::uint8_t, 32>;

inline constexpr std::size_t kLeafElements = 4096;

Digest sha256(std::span<const std::byte> bytes);
std::string to_hex(std::span<const std::uint8_t> bytes);  // such as a Digest

// Leaf i covers kLeafElements elements from kLeafElements i on; size must be a multiple of that.
// Leaf = SHA-256(0x00 || bytes).
std::vector<Digest> merkle_leaves(std::span<const float> values);

// Inner node = SHA-256(0x01 || left || right); an odd node is promoted. The root of no leaves is
// SHA-256("").
Digest merkle_root(std::span<const Digest> leaves);

// What a contribution carries: SHA-256(root(anchor) || root(momentum)).
Digest state_digest(const Digest& anchor_root, const Digest& momentum_root);

}  // namespace causeway::diloco
