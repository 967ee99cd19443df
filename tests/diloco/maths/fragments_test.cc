#include "diloco/maths/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace causeway::diloco {
namespace {

using ::testing::HasSubstr;

// Six layers of two matrices each, an embedding of three segments, and vectors.
const Layout& model() {
  static const Layout layout = [] {
    std::vector<TensorSpec> tensors{{"embedding", {3 << 8, 4096}}};
    for (int layer = 0; layer < 6; ++layer) {
      const std::string name = "blocks." + std::to_string(layer);
      tensors.push_back({name + ".attention.qkv", {64, 192}});
      tensors.push_back({name + ".mlp.up", {64, 256}});
      tensors.push_back({name + ".norm", {64}});
    }
    return Layout(std::move(tensors));
  }();
  return layout;
}

std::set<std::string> names(const Fragments& fragments, std::size_t fragment) {
  std::set<std::string> names;
  for (const std::size_t segment : fragments.segments(fragment))
    names.insert(model().tensor_at(model().segments()[segment].offset).spec.name);
  return names;
}

TEST(Fragments, HoldEverySegmentOnce) {
  for (const std::uint32_t count : {1U, 2U, 3U, 6U, 12U}) {
    const Fragments fragments(model(), count, FragmentOrder::strided);
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_FALSE(fragments.segments(i).empty());
      EXPECT_TRUE(std::ranges::is_sorted(fragments.segments(i)));
      all.insert(all.end(), fragments.segments(i).begin(), fragments.segments(i).end());
    }
    std::ranges::sort(all);
    ASSERT_EQ(all.size(), model().segments().size());
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i);
  }
}

TEST(Fragments, StridedTakeEveryNthLayer) {
  const Fragments fragments(model(), 3, FragmentOrder::strided);
  EXPECT_TRUE(names(fragments, 1).contains("blocks.1.mlp.up"));
  EXPECT_TRUE(names(fragments, 1).contains("blocks.4.attention.qkv"));
  EXPECT_FALSE(names(fragments, 1).contains("blocks.2.mlp.up"));
}

TEST(Fragments, SequentialKeepNeighboursTogether) {
  const Fragments fragments(model(), 3, FragmentOrder::sequential);
  EXPECT_TRUE(names(fragments, 1).contains("blocks.2.mlp.up"));
  EXPECT_TRUE(names(fragments, 1).contains("blocks.3.attention.qkv"));
  EXPECT_FALSE(names(fragments, 1).contains("blocks.4.mlp.up"));
}

TEST(Fragments, SpreadWhatIsOfNoLayer) {
  const Fragments fragments(model(), 3, FragmentOrder::strided);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(names(fragments, i).contains("embedding"));
}

TEST(Fragments, AreNeverMoreThanTheModelHasSegments) {
  const Layout small({{"only", {64, 64}}});
  try {
    Fragments(small, 2, FragmentOrder::strided);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("cannot be cut into 2"));
  }
}

}  // namespace
}  // namespace causeway::diloco
