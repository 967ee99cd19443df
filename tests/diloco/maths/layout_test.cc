#include "diloco/maths/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace causeway::diloco {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<TensorSpec> example() {
  return {{"embedding", {300, 4096}},  // 300 chunks: one full segment and 44 chunks
          {"norm.scale", {100}},
          {"matrix", {3, 5}},
          {"norm.shift", {4000}}};
}

std::string message_of(std::vector<TensorSpec> tensors) {
  try {
    const Layout layout(std::move(tensors));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Layout, PlacesMatricesOnChunksThenPacksVectors) {
  const Layout layout(example());
  EXPECT_EQ(layout.find("embedding").offset, 0U);
  EXPECT_EQ(layout.find("matrix").offset, 300U * 4096);
  EXPECT_EQ(layout.find("norm.scale").offset, 301U * 4096);
  EXPECT_EQ(layout.find("norm.shift").offset, 301U * 4096 + 100);
  EXPECT_EQ(layout.size(), 303U * 4096);
  EXPECT_EQ(layout.parameter_count(), 300U * 4096 + 100 + 15 + 4000);
}

TEST(Layout, KeepsTheOrderOfTheTensorList) {
  const Layout layout(example());
  std::vector<std::string> names;
  for (const PlacedTensor& tensor : layout.tensors()) names.push_back(tensor.spec.name);
  EXPECT_THAT(names, ElementsAre("embedding", "norm.scale", "matrix", "norm.shift"));
}

TEST(Layout, CutsSegmentsAtTheMaximumAndAtClasses) {
  const Layout layout(example());
  std::vector<std::size_t> counts;
  std::vector<SegmentClass> kinds;
  std::size_t end = 0;
  for (const Segment& segment : layout.segments()) {
    EXPECT_EQ(segment.offset, end);
    EXPECT_EQ(segment.count % 4096, 0U);
    end += segment.count;
    counts.push_back(segment.count);
    kinds.push_back(segment.kind);
  }
  EXPECT_EQ(end, layout.size());
  EXPECT_THAT(counts, ElementsAre(256U * 4096, 44U * 4096, 4096U, 2U * 4096));
  EXPECT_THAT(kinds, ElementsAre(SegmentClass::matrix, SegmentClass::matrix, SegmentClass::matrix,
                                 SegmentClass::vector));
}

TEST(Layout, PutsStatisticsBehindAllParametersByTheirNames) {
  const Layout layout({{"lowest:count", {3}},
                       {"average:mean", {5}},
                       {"matrix", {2, 2}},
                       {"average:wide", {2, 3}},
                       {"shift", {7}}});
  std::vector<SegmentClass> kinds;
  for (const Segment& segment : layout.segments()) {
    EXPECT_EQ(segment.count, 4096U);
    kinds.push_back(segment.kind);
  }
  EXPECT_THAT(kinds, ElementsAre(SegmentClass::matrix, SegmentClass::vector, SegmentClass::averaged,
                                 SegmentClass::lowest));
  EXPECT_EQ(layout.find("average:mean").offset, 2U * 4096);
  EXPECT_EQ(layout.find("average:wide").offset, 2U * 4096 + 5);
  EXPECT_EQ(layout.find("lowest:count").offset, 3U * 4096);
}

TEST(Layout, NamesTheTensorOfAnElementAndOfItsPadding) {
  const Layout layout(example());
  const auto name_at = [&](std::size_t element) { return layout.tensor_at(element).spec.name; };
  EXPECT_EQ(name_at(0), "embedding");
  EXPECT_EQ(name_at(300 * 4096 - 1), "embedding");
  EXPECT_EQ(name_at(300 * 4096), "matrix");
  EXPECT_EQ(name_at(301 * 4096 - 1), "matrix");
  EXPECT_EQ(name_at(301 * 4096 + 99), "norm.scale");
  EXPECT_EQ(name_at(301 * 4096 + 100), "norm.shift");
  EXPECT_EQ(name_at(layout.size() - 1), "norm.shift");
}

TEST(Layout, RefusesBadTensorsByName) {
  EXPECT_THAT(message_of({{"twin", {1}}, {"twin", {2, 2}}}), HasSubstr("'twin' appears twice"));
  EXPECT_THAT(message_of({{"flat", {3, 0}}}), HasSubstr("'flat'"));
  EXPECT_THAT(message_of({{"inverse", {-3}}}), HasSubstr("'inverse'"));
  EXPECT_THAT(message_of({{"huge", {std::int64_t{1} << 40, 1 << 20}}}), HasSubstr("'huge'"));
  EXPECT_THROW(Layout(example()).find("absent"), std::out_of_range);
}

TEST(Layout, IsEmptyWithoutTensors) {
  const Layout layout({});
  EXPECT_EQ(layout.size(), 0U);
  EXPECT_TRUE(layout.segments().empty());
  EXPECT_TRUE(layout.assign({}, 3).empty());
}

TEST(Layout, AssignsEverySegmentAndBalancesElements) {
  std::vector<TensorSpec> tensors;
  for (int i = 1; i <= 40; ++i) tensors.push_back({std::to_string(i), {i, 4096}});
  const Layout layout(std::move(tensors));
  std::vector<std::size_t> all(layout.segments().size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (const std::size_t workers : {1U, 2U, 3U, 7U}) {
    const std::vector<std::size_t> owners = layout.assign(all, workers);
    ASSERT_EQ(owners.size(), layout.segments().size());
    std::vector<std::size_t> load(workers);
    for (std::size_t i = 0; i < owners.size(); ++i) {
      load.at(owners[i]) += layout.segments()[i].count;
    }
    const auto [least, most] = std::minmax_element(load.begin(), load.end());
    EXPECT_LE(*most - *least, 4 * 4096U) << workers << " workers";
  }
}

}  // namespace
}  // namespace causeway::diloco
