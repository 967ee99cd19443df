#include "intra/base/strided_tensor.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace causeway::intra {
namespace {

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text;
  for (const std::int64_t dimension : shape)
    text += fmt::format("{}{}", text.empty() ? "" : " x ", dimension);
  return text.empty() ? "no dimension" : text;
}

void check_tensor(const diloco::TensorSpec& spec, const StridedTensor& view) {
  const std::string tensor = "tensor '" + spec.name + "': ";
  if (!std::ranges::equal(view.shape, spec.shape)) {
    throw std::invalid_argument(tensor + "its shape is " + shape_text(view.shape) +
                                " where the worker was made with " + shape_text(spec.shape));
  }
  if (view.data == nullptr) throw std::invalid_argument(tensor + "its data is a null pointer");
  if (reinterpret_cast<std::uintptr_t>(view.data) % alignof(float) != 0)
    throw std::invalid_argument(
        fmt::format("{}its data does not begin at a multiple of {} bytes; hand over a copy", tensor,
                    alignof(float)));
  if (view.strides.empty()) return;
  if (view.strides.size() != view.shape.size()) {
    throw std::invalid_argument(fmt::format("{}{} strides for {} dimensions", tensor,
                                            view.strides.size(), view.shape.size()));
  }
  for (std::size_t i = 0; i < view.shape.size(); ++i) {
    if (view.strides[i] == 0 && view.shape[i] > 1) {
      throw std::invalid_argument(fmt::format(
          "{}stride 0 in dimension {}: its elements share memory; give it memory of its own",
          tensor, i));
    }
  }
}

// A loop over one or more dimensions whose elements lie at the same distance from each other.
struct Loop {
  std::int64_t count, stride;
};

// From the outermost, as few as possible.
std::vector<Loop> loops(const StridedTensor& view) {
  std::vector<Loop> inner_first;
  std::int64_t dense = 1;
  for (std::size_t i = view.shape.size(); i-- > 0;) {
    const Loop loop{view.shape[i], view.strides.empty() ? dense : view.strides[i]};
    dense *= loop.count;
    if (loop.count == 1) continue;
    if (!inner_first.empty() &&
        loop.stride == inner_first.back().count * inner_first.back().stride) {
      inner_first.back().count *= loop.count;
    } else {
      inner_first.push_back(loop);
    }
  }
  if (inner_first.empty()) inner_first.push_back({1, 1});
  return {inner_first.rbegin(), inner_first.rend()};
}

// Calls copy(elements, stride, count) for one run of elements after the other.
template <typename Copy>
void each_run(std::span<const Loop> nest, float* data, const Copy& copy) {
  const Loop outer = nest[0];
  if (nest.size() == 1) return copy(data, outer.stride, outer.count);
  for (std::int64_t i = 0; i < outer.count; ++i)
    each_run(nest.subspan(1), data + i * outer.stride, copy);
}

// The memory from a tensor's first element to its last.
struct Extent {
  std::size_t tensor;
  const float *first, *last;
};

// Nothing of a tensor without elements.
std::optional<Extent> extent_of(std::size_t tensor, const StridedTensor& view) {
  Extent extent{tensor, view.data, view.data};
  for (const Loop& loop : loops(view)) {
    if (loop.count == 0) return std::nullopt;
    (loop.stride < 0 ? extent.first : extent.last) += (loop.count - 1) * loop.stride;
  }
  return extent;
}

// Whether each dimension steps over all that the ones inside it reach: then no element is met
// twice.
bool is_nested(const StridedTensor& view) {
  std::vector<Loop> nest = loops(view);
  std::ranges::sort(nest, {}, [](const Loop& loop) { return std::abs(loop.stride); });
  std::int64_t reach = 0;
  for (const Loop& loop : nest) {
    if (loop.count > 1 && std::abs(loop.stride) <= reach) return false;
    reach += (loop.count - 1) * std::abs(loop.stride);
  }
  return true;
}

// Element by element, of tensors whose extents overlap. Views of one array may still be apart.
void check_elements(const diloco::Layout& layout, const StridedTensors& views,
                    std::span<const Extent> extents) {
  const float* first = extents.front().first;
  const float* last = std::ranges::max(extents, {}, &Extent::last).last;
  std::vector<bool> taken(static_cast<std::size_t>(last - first) + 1);
  for (const Extent& extent : extents) {
    const auto take = [&](const float* data, std::int64_t stride, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) {
        auto at = taken[static_cast<std::size_t>(data + i * stride - first)];
        if (at) {
          throw std::invalid_argument("tensor '" + layout.tensors()[extent.tensor].spec.name +
                                      "' shares memory with itself or another tensor: give each "
                                      "element memory of its own");
        }
        at = true;
      }
    };
    const StridedTensor& view = views[extent.tensor];
    each_run(loops(view), view.data, take);
  }
}

}  // namespace

StridedTensors contiguous_tensors(const diloco::Layout& layout, float* params, std::size_t count) {
  if (count != layout.parameter_count()) {
    throw std::invalid_argument(
        fmt::format("the parameters have {} elements where the tensors have {}", count,
                    layout.parameter_count()));
  }
  StridedTensors views;
  for (const diloco::PlacedTensor& tensor : layout.tensors()) {
    views.push_back({params, tensor.spec.shape, {}});
    params += tensor.spec.count();
  }
  return views;
}

void check_tensors(const diloco::Layout& layout, const StridedTensors& views) {
  if (views.size() != layout.tensors().size()) {
    throw std::invalid_argument(
        fmt::format("{} parameter tensors where the worker was made with {}", views.size(),
                    layout.tensors().size()));
  }
  for (std::size_t i = 0; i < views.size(); ++i) check_tensor(layout.tensors()[i].spec, views[i]);
}

void check_apart(const diloco::Layout& layout, const StridedTensors& views) {
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (const auto extent = extent_of(i, views[i])) extents.push_back(*extent);
  }
  std::ranges::sort(extents, {}, &Extent::first);
  for (std::size_t begin = 0; begin < extents.size();) {
    std::size_t end = begin + 1;
    const float* last = extents[begin].last;
    for (; end < extents.size() && extents[end].first <= last; ++end)
      last = std::max(last, extents[end].last);
    const bool alone = end == begin + 1;
    if (!alone || !is_nested(views[extents[begin].tensor]))
      check_elements(layout, views, std::span(extents).subspan(begin, end - begin));
    begin = end;
  }
}

void read_tensors(const diloco::Layout& layout, const StridedTensors& views,
                  std::span<float> flat) {
  for (std::size_t i = 0; i < views.size(); ++i) {
    float* to = flat.data() + layout.tensors()[i].offset;
    const auto copy = [&to](const float* from, std::int64_t stride, std::int64_t count) {
      if (stride == 1) {
        to = std::copy_n(from, count, to);
      } else {
        for (std::int64_t at = 0; at < count; ++at) *to++ = from[at * stride];
      }
    };
    each_run(loops(views[i]), views[i].data, copy);
  }
}

void write_tensors(const diloco::Layout& layout, std::span<const float> flat,
                   const StridedTensors& views) {
  for (std::size_t i = 0; i < views.size(); ++i) {
    const float* from = flat.data() + layout.tensors()[i].offset;
    const auto copy = [&from](float* to, std::int64_t stride, std::int64_t count) {
      if (stride == 1) {
        std::copy_n(from, count, to);
        from += count;
      } else {
        for (std::int64_t at = 0; at < count; ++at) to[at * stride] = *from++;
      }
    };
    each_run(loops(views[i]), views[i].data, copy);
  }
}

}  // namespace causeway::intra
