#include "diloco/maths/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

namespace causeway::diloco {
namespace {

constexpr std::size_t kLeaf = 4096;

std::span<const std::byte> bytes_of(const char* text) {
  return std::as_bytes(std::span(text, std::strlen(text)));
}

std::vector<float> ramp(std::size_t leaves) {
  std::vector<float> values(leaves * kLeaf);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

std::vector<std::byte> tagged(unsigned char tag,
                              std::initializer_list<std::span<const std::byte>> parts) {
  std::vector<std::byte> all{std::byte{tag}};
  for (const auto part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(Sha256, MatchesPublishedVectors) {
  EXPECT_EQ(to_hex(sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256(bytes_of("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Merkle, HashesLeavesAndInnerNodesUnderDifferentTags) {
  const std::vector<float> values = ramp(3);
  const std::vector<Digest> leaves = merkle_leaves(values);
  ASSERT_EQ(leaves.size(), 3U);
  EXPECT_EQ(leaves[1], sha256(tagged(0, {std::as_bytes(std::span(values).subspan(kLeaf, kLeaf))})));
  const Digest pair =
      sha256(tagged(1, {std::as_bytes(std::span(leaves[0])), std::as_bytes(std::span(leaves[1]))}));
  const Digest root =
      sha256(tagged(1, {std::as_bytes(std::span(pair)), std::as_bytes(std::span(leaves[2]))}));
  EXPECT_EQ(merkle_root(leaves), root);
}

TEST(Merkle, RootOfOneLeafIsTheLeafAndOfNoneIsTheEmptyHash) {
  const std::vector<Digest> leaves = merkle_leaves(ramp(1));
  EXPECT_EQ(merkle_root(leaves), leaves[0]);
  EXPECT_EQ(merkle_root({}), sha256({}));
}

// It is not computed again; its neighbours are. More leaves than one thread takes.
TEST(Merkle, HashesALeafOfZerosAsAnyOther) {
  std::vector<float> values = ramp(40);
  std::fill_n(values.begin() + 33 * kLeaf, kLeaf, 0.0F);
  const std::vector<Digest> leaves = merkle_leaves(values);
  std::string zeros(1 + kLeaf * sizeof(float), '\0');
  EXPECT_EQ(leaves[33], sha256(std::as_bytes(std::span(zeros))));
  for (const std::size_t leaf : {0U, 31U, 32U, 34U, 39U}) {
    const auto alone = std::span(values).subspan(leaf * kLeaf, kLeaf);
    EXPECT_EQ(merkle_leaves(alone).front(), leaves[leaf]) << leaf;
    EXPECT_NE(leaves[leaf], leaves[33]);
  }
}

TEST(Merkle, RootDoesNotDependOnHowTheSpanWasPartitioned) {
  const std::vector<float> values = ramp(23);
  const Digest whole = merkle_root(merkle_leaves(values));
  for (const std::size_t step : {1U, 2U, 5U, 16U}) {
    std::vector<Digest> gathered;
    for (std::size_t leaf = 0; leaf < 23; leaf += step) {
      const std::size_t count = std::min(step, 23 - leaf);
      const auto part = merkle_leaves(std::span(values).subspan(leaf * kLeaf, count * kLeaf));
      gathered.insert(gathered.end(), part.begin(), part.end());
    }
    EXPECT_EQ(merkle_root(gathered), whole) << step;
  }
}

TEST(Merkle, OneFlippedBitChangesItsLeafAloneAndTheRoot) {
  std::vector<float> values = ramp(5);
  const std::vector<Digest> before = merkle_leaves(values);
  values[3 * kLeaf + 17] = -values[3 * kLeaf + 17];
  const std::vector<Digest> after = merkle_leaves(values);
  for (std::size_t leaf = 0; leaf < 5; ++leaf) EXPECT_EQ(before[leaf] != after[leaf], leaf == 3);
  EXPECT_NE(merkle_root(before), merkle_root(after));
}

TEST(Merkle, TellsPlusFromMinusZero) {
  std::vector<float> values(kLeaf);
  const Digest plus = merkle_root(merkle_leaves(values));
  values[0] = -0.0F;
  EXPECT_NE(merkle_root(merkle_leaves(values)), plus);
}

TEST(StateDigest, DependsOnBothRootsAndTheirOrder) {
  const Digest a = sha256(bytes_of("a"));
  const Digest b = sha256(bytes_of("b"));
  EXPECT_NE(state_digest(a, b), state_digest(b, a));
  EXPECT_NE(state_digest(a, b), state_digest(a, a));
}

}  // namespace
}  // namespace causeway::diloco
