#include "intra/base/strided_tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace causeway::intra {
namespace {

// Index by index, as the header defines it.
std::vector<float> element_by_element(const StridedTensor& tensor) {
  std::vector<float> elements;
  std::vector<std::int64_t> index(tensor.shape.size());
  for (;;) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < index.size(); ++i) at += index[i] * tensor.strides[i];
    elements.push_back(tensor.data[at]);
    std::size_t last = index.size();
    while (last > 0 && ++index[last - 1] == tensor.shape[last - 1]) index[--last] = 0;
    if (last == 0) return elements;
  }
}

const std::vector<std::int64_t> kShape{3, 1, 4, 5};

// An array of that shape somewhere in memory, whose values are all different.
struct Array {
  std::vector<std::int64_t> strides = std::vector<std::int64_t>(4);
  std::vector<float> memory;
  std::ptrdiff_t first = 0;

  // `order`: the dimensions, from the one that runs fastest.
  Array(const std::vector<std::size_t>& order, std::int64_t gap, bool backwards) {
    std::int64_t size = 1 + gap;
    for (const std::size_t dimension : order) {
      strides[dimension] = size;
      size = size * kShape[dimension] + gap;
    }
    memory.resize(static_cast<std::size_t>(size));
    std::iota(memory.begin(), memory.end(), 1.0F);
    if (!backwards) return;
    first = (kShape[2] - 1) * strides[2];
    strides[2] = -strides[2];
  }
  StridedTensor tensor() { return {memory.data() + first, kShape, strides}; }
};

void expect_index_by_index(Array array) {
  const std::vector<std::int64_t> two{2};
  std::vector<float> vector{-1, -2};
  const diloco::Layout layout({{"vector", two}, {"array", kShape}});
  const StridedTensors tensors{{vector.data(), two, {}}, array.tensor()};
  check_tensors(layout, tensors);

  std::vector<float> flat(layout.size());
  read_tensors(layout, tensors, flat);
  const std::vector<float> wanted = element_by_element(tensors[1]);
  const float* const read = &flat[layout.find("array").offset];
  ASSERT_EQ(std::vector(read, read + wanted.size()), wanted);
  ASSERT_EQ(flat[layout.find("vector").offset + 1], -2);

  const std::vector<float> before = array.memory;
  for (float& value : flat) value = -value;
  write_tensors(layout, flat, tensors);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool inside = std::ranges::find(wanted, before[i]) != wanted.end();
    ASSERT_EQ(array.memory[i], inside ? -before[i] : before[i]);
  }
}

TEST(StridedTensor, IsReadAndWrittenIndexByIndexHoweverItLiesInMemory) {
  std::vector<std::size_t> order{0, 1, 2, 3};
  do {
    for (const std::int64_t gap : {0, 2}) {
      for (const bool backwards : {false, true})
        expect_index_by_index(Array(order, gap, backwards));
    }
  } while (std::ranges::next_permutation(order).found);
}

TEST(StridedTensor, OfOneElementIsOneWhateverItsStrides) {
  const std::vector<std::int64_t> shape{1, 1}, strides{0, -7};
  const diloco::Layout layout({{"one", shape}});
  float value = 5;
  const StridedTensors tensors{{&value, shape, strides}};
  check_tensors(layout, tensors);
  std::vector<float> flat(layout.size());
  read_tensors(layout, tensors, flat);
  EXPECT_EQ(flat[0], 5);
}

// Of tensors of 2 x 3 in one memory of 12 floats, each with its first element and strides.
struct Placed {
  std::ptrdiff_t first;
  std::vector<std::int64_t> strides;
};

bool are_apart(const std::vector<Placed>& places) {
  const std::vector<std::int64_t> shape{2, 3};
  static std::vector<float> memory(12);
  std::vector<diloco::TensorSpec> specs;
  StridedTensors tensors;
  for (const Placed& place : places) {
    specs.push_back({"t" + std::to_string(specs.size()), shape});
    tensors.push_back({memory.data() + place.first, shape, place.strides});
  }
  const diloco::Layout layout(specs);
  check_tensors(layout, tensors);
  try {
    check_apart(layout, tensors);
  } catch (const std::invalid_argument& refusal) {
    EXPECT_NE(std::string(refusal.what()).find("shares memory"), std::string::npos);
    return false;
  }
  return true;
}

TEST(StridedTensor, MayLieBetweenTheElementsOfAnother) {
  EXPECT_TRUE(are_apart({{0, {}}, {6, {}}}));
  EXPECT_TRUE(are_apart({{0, {6, 2}}, {1, {6, 2}}}));     // even and odd columns of one array
  EXPECT_TRUE(are_apart({{0, {1, 4}}, {11, {-1, -4}}}));  // transposed, and the rest backwards
  EXPECT_TRUE(are_apart({{0, {3, 2}}}));                  // 0 2 4 3 5 7: no element twice
}

TEST(StridedTensor, ThatSharesMemoryIsRefused) {
  EXPECT_FALSE(are_apart({{0, {}}, {0, {}}}));
  EXPECT_FALSE(are_apart({{0, {}}, {5, {}}}));
  EXPECT_FALSE(are_apart({{0, {1, 1}}}));  // 0 1 2 1 2 3
  EXPECT_FALSE(are_apart({{2, {-1, 1}}}));
  EXPECT_FALSE(are_apart({{0, {6, 2}}, {6, {}}}));
}

TEST(StridedTensor, AtAnAddressThatIsNoFloatsIsRefused) {
  const std::vector<std::int64_t> shape{1};
  const diloco::Layout layout({{"odd", shape}});
  alignas(float) std::array<char, 2 * sizeof(float)> memory{};
  const StridedTensors tensors{{reinterpret_cast<float*>(memory.data() + 1), shape, {}}};
  EXPECT_THROW(check_tensors(layout, tensors), std::invalid_argument);
}

}  // namespace
}  // namespace causeway::intra
