#include "diloco/maths/sha256_leaf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "diloco/maths/digest.h"

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

}  // namespace
}  // namespace causeway::diloco
