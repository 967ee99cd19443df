// Tensors where a program has them, and the flat layout, where they lie one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "diloco/maths/layout.h"

namespace causeway::intra {

// Element (i, j, ...) is data[i * strides[0] + j * strides[1] + ...]; no strides: no gaps, the last
// index runs fastest. What the spans show outlives this.
struct StridedTensor {
  float* data = nullptr;
  std::span<const std::int64_t> shape, strides;
};
using StridedTensors = std::vector<StridedTensor>;

// Of parameters that lie without any gap, in the layout's order. `layout` outlives them. Throws
// std::invalid_argument if their number, `count`, is not the layout's.
StridedTensors contiguous_tensors(const diloco::Layout& layout, float* params, std::size_t count);

// Throws std::invalid_argument naming the tensor, if these cannot be the layout's.
void check_tensors(const diloco::Layout& layout, const StridedTensors& views);

// Throws std::invalid_argument naming a tensor of which an element lies where another does, in it
// or in another one: what is written there would be lost. Views that were checked.
void check_apart(const diloco::Layout& layout, const StridedTensors& views);

// flat <- views, padding left alone; and back. Views that were checked.
void read_tensors(const diloco::Layout& layout, const StridedTensors& views, std::span<float> flat);
void write_tensors(const diloco::Layout& layout, std::span<const float> flat,
                   const StridedTensors& views);

}  // namespace causeway::intra
