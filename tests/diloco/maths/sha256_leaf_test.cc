#include "diloco/maths/sha256_leaf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "diloco/maths/digest.h"
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
  if (!inter::has_sha256_lanes()) GTEST_SKIP() << "this CPU has no instructions for SHA-256";
  std::mt19937 chance(2);
  constexpr std::size_t kLanes = inter::kSha256Lanes;
  std::vector<float> values(kLanes * kLeafElements);
  for (float& value : values) value = std::bit_cast<float>(static_cast<std::uint32_t>(chance()));
  const std::byte* leaves[kLanes];
  Digest found[kLanes];
  Digest* digests[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    leaves[lane] = reinterpret_cast<const std::byte*>(values.data() + lane * kLeafElements);
    digests[lane] = &found[lane];
  }
  inter::hash_leaves(leaves, digests);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    Digest expected{};
    hash_leaf(values.data() + lane * kLeafElements, expected);
    EXPECT_EQ(found[lane], expected) << "lane " << lane;
  }
}

}  // namespace
}  // namespace causeway::diloco
