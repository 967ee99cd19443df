// State digests: the hash tree (inter/base/hash_tree.h) over a flat fp32 span, one leaf per 4,096
// elements (little-endian bytes). The root does not depend on the number of workers, and a
// differing leaf names the tensor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace causeway::diloco {

using Digest = std::array<std::uint8_t, 32>;

inline constexpr std::size_t kLeafElements = 4096;

Digest sha256(std::span<const std::byte> bytes);
Digest tree_hash(std::span<const std::byte> bytes);       // of a payload: the hash in its BlobId
std::string to_hex(std::span<const std::uint8_t> bytes);  // such as a Digest
std::optional<Digest> from_hex(std::string_view text);  // nothing: it is no digest as to_hex has it

// Leaf i covers kLeafElements elements from kLeafElements i on; size must be a multiple of that.
// Leaf = SHA-256(0x00 || bytes).
std::vector<Digest> merkle_leaves(std::span<const float> values);
void hash_leaves(std::span<const float> values, std::span<Digest> leaves);  // in this thread

Digest merkle_root(std::span<const Digest> leaves);

// What a contribution carries: SHA-256(root(anchor) || root(momentum)).
Digest state_digest(const Digest& anchor_root, const Digest& momentum_root);

// The hash chain over a history: equal ends, equal histories.
Digest chain_start(const std::string& run_id);  // SHA-256(run id)
// SHA-256(previous || content)
Digest chain_next(const Digest& previous, const std::string& content);

// What training data is known by, to others who should have the same.
struct DataDigest {
  Digest sample{};                   // of the sizes of its files and of blocks of each
  std::optional<Digest> whole = {};  // of every byte; none: not all of them are read yet
  bool operator==(const DataDigest&) const = default;
};

// Of what one worker reads; none: of such data nothing is compared.
struct DataDigests {
  std::optional<DataDigest> of_region;  // that all ranks of the region must have in common
  std::optional<DataDigest> of_run;     // that all regions must
  bool operator==(const DataDigests&) const = default;
};

// By every byte where both have read all, otherwise by the sample: then they may differ all the
// same.
bool same_data(const DataDigest& one, const DataDigest& other);

// The beginning of its digest: "0123456789ab", "a sample: 0123456789ab".
std::string short_name(const DataDigest& data);

}  // namespace causeway::diloco
