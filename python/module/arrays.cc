#include "python/module/arrays.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "diloco/maths/layout.h"
#include "intra/base/strided_tensor.h"

namespace nb = nanobind;

namespace causeway::python {
namespace {

std::string shape_of(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (const std::int64_t size : shape)
    text += fmt::format("{}{}", text.size() > 1 ? ", " : "", size);
  return text + ")";
}

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw nb::value_error(("tensor \"" + name + "\" " + what).c_str());
}

template <typename Array>
void check_kind(const std::string& name, const Array& array) {
  if (array.device_type() != nb::device::cpu::value) {
    refuse(name, "is not in the host's memory: copy it there, or use causeway.torch");
  }
  if (array.dtype() != nb::dtype<float>())
    refuse(name, "is not fp32: hand over an fp32 copy, or use causeway.torch");
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    if (array.shape(i) > 1 && array.stride(i) == 0) {
      refuse(name, "shows one element in several places: hand over a copy without strides of 0");
    }
  }
}

template <typename Array>
Array cast(const std::string& name, nb::handle value, const char* wanted) {
  Array array;
  if (!nb::try_cast<Array>(value, array, false)) refuse(name, wanted);
  check_kind(name, array);
  return array;
}

std::string name_in(nb::handle key) {
  std::string name;
  if (nb::try_cast<std::string>(key, name, false)) return name;
  throw nb::value_error((std::string("a tensor's name is ") + nb::repr(key).c_str() +
                         ": names are text that UTF-8 can hold")
                            .c_str());
}

}  // namespace

Arrays::Arrays(const nb::mapping& named, Access access) {
  for (const nb::handle item : named.items()) {
    const std::string name = name_in(item[0]);
    Tensor tensor{name, {}};
    const auto hold = [&](const auto& array, float* data) {
      ParameterView view{.data = data, .shape = {}};
      for (std::size_t i = 0; i < array.ndim(); ++i) {
        view.shape.push_back(static_cast<std::int64_t>(array.shape(i)));
        view.strides.push_back(array.stride(i));
      }
      tensor.shape = view.shape;
      views_.push_back(std::move(view));
      holds_.push_back(std::make_shared<std::decay_t<decltype(array)>>(array));
    };
    if (access == Access::write) {
      const auto array = cast<nb::ndarray<>>(
          name, item[1], "is no writable array with the buffer protocol or DLPack");
      hold(array, static_cast<float*>(array.data()));
    } else {
      const auto array = cast<nb::ndarray<nb::ro>>(
          name, item[1], "is no array with the buffer protocol or DLPack");
      hold(array, const_cast<float*>(static_cast<const float*>(array.data())));
    }
    tensors_.push_back(std::move(tensor));
  }
  if (tensors_.empty()) throw nb::value_error("no tensors were given: a run has at least one");
  if (access == Access::write) check_apart();
}

// Now, and not when next() writes to them.
void Arrays::check_apart() const {
  std::vector<diloco::TensorSpec> specs;
  for (const Tensor& tensor : tensors_) specs.push_back({tensor.name, tensor.shape});
  const diloco::Layout layout(specs);
  intra::StridedTensors views;
  for (const ParameterView& view : views_) views.push_back({view.data, view.shape, view.strides});
  intra::check_tensors(layout, views);
  intra::check_apart(layout, views);
}

void Arrays::arrange_like(const std::vector<Tensor>& tensors) {
  if (tensors_.size() != tensors.size()) {
    throw nb::value_error((fmt::format("{} tensors were given where the worker was made with {}",
                                       tensors_.size(), tensors.size()))
                              .c_str());
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto begin = tensors_.begin() + static_cast<std::ptrdiff_t>(i);
    const auto found = std::ranges::find(begin, tensors_.end(), tensors[i].name, &Tensor::name);
    if (found == tensors_.end()) refuse(tensors[i].name, "is missing");
    const auto at = static_cast<std::size_t>(found - tensors_.begin());
    std::swap(tensors_[i], tensors_[at]);
    std::swap(views_[i], views_[at]);
    if (tensors_[i].shape != tensors[i].shape) {
      refuse(tensors_[i].name, "has the shape " + shape_of(tensors_[i].shape) +
                                   " where the worker was made with " + shape_of(tensors[i].shape));
    }
  }
}

}  // namespace causeway::python
