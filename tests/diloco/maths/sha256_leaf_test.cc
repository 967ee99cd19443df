#include "diloco/maths/sha256_leaf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "diloco/maths/digest.h"
#include "inter/base/hash_tree.h"
#include "inter/base/sha256_lanes.h"

namespace causeway::diloco {
namespace {

TEST(Sha256Leaf, IsTheLeafOfTheMerkleTree) {
  std::mt19937 chance(1);
  std::vector<float> values(3 * kLeafElements);
  for (float& value : values) value = std::bit_cast<float>(static_cast<std::uint32_t>(chance()));
  std::fill_n(values.begin(), kLeafElements, 0.0F);
  const std::vector<Digest> expected = merkle_leaves(values);
  for (std::size_t leaf = 0; leaf < expected.size(); ++leaf) {
    Digest digest{};
    hash_leaf(values.data() + leaf * kLeafElements, digest);
    EXPECT_EQ(digest, expected[leaf]) << "leaf " << leaf;
  }
}

// Two readings of the same standard: the portable one above, and the CPU's instructions.
TEST(Sha256Lanes, HashSeveralLeavesAsOneIsHashedAlone) {
  if (inter::sha256_lanes().empty()) GTEST_SKIP() << "this CPU has no instructions for it";
  std::mt19937 chance(2);
  std::vector<float> values(inter::kSha256LanesMax * kLeafElements);
  for (float& value : values) value = std::bit_cast<float>(static_cast<std::uint32_t>(chance()));
  for (const inter::Sha256Lanes& lanes : inter::sha256_lanes()) {
    const std::byte* leaves[inter::kSha256LanesMax];
    Digest found[inter::kSha256LanesMax] = {};
    Digest* digests[inter::kSha256LanesMax];
    for (std::size_t lane = 0; lane < lanes.count; ++lane) {
      leaves[lane] = reinterpret_cast<const std::byte*>(values.data() + lane * kLeafElements);
      digests[lane] = &found[lane];
    }
    inter::hash_tagged(lanes, std::byte{0}, inter::kLeafBytes, leaves, digests);
    for (std::size_t lane = 0; lane < lanes.count; ++lane) {
      Digest expected{};
      hash_leaf(values.data() + lane * kLeafElements, expected);
      EXPECT_EQ(found[lane], expected) << "lane " << lane << " of " << lanes.count;
    }
  }
}

}  // namespace
}  // namespace causeway::diloco
