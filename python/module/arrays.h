// Tensors of a Python program: anything with the buffer protocol or DLPack, in the host's memory.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "intra/worker/worker.h"

namespace causeway::python {

// Named arrays of fp32, in the order in which they were given. Holds references to them. All
// functions need the GIL, and throw nanobind::type_error or value_error with a sentence for the
// user.
class Arrays {
 public:
  enum class Access : std::uint8_t { read, write };

  // `named`: a mapping of names to arrays, each of fp32, and writable if it is for that.
  Arrays(const nanobind::mapping& named, Access access);

  // Into the order of `tensors`, whose names and shapes they have.
  void arrange_like(const std::vector<Tensor>& tensors);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<ParameterView>& views() const { return views_; }

 private:
  void check_apart() const;

  std::vector<std::shared_ptr<void>> holds_;  // the arrays: they are not freed meanwhile
  std::vector<Tensor> tensors_;
  std::vector<ParameterView> views_;
};

}  // namespace causeway::python
