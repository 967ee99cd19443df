// The three matrix products of a linear layer, by oneDNN. Primitives are created once per shape; a
// call then only sets addresses.
#pragma once

#include <cstdint>
#include <memory>

#include "intra/model/products.h"

namespace causeway::intra {

// Shape of a linear layer: x is (rows, in), y is (rows, out), W is (out, in) and contiguous.
// Strides are the distances between rows. `count` such layers in one call have their x, y and W one
// after the other.
struct LinearShape {
  std::int64_t rows = 0, in = 0, out = 0, x_stride = 0, y_stride = 0, count = 1;
};

// Not for concurrent use.
class Gemm {
 public:
  explicit Gemm(Products products);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // y = x W^T + bias; bias may be null, and is with several layers. x and W are operands.
  void forward(const LinearShape& shape, const void* x, const void* weight, const float* bias,
               float* y);
  // dx = dy W, or dx += dy W. dy and W are operands.
  void backward_input(const LinearShape& shape, const void* dy, const void* weight, float* dx,
                      bool accumulate);
  // dweight += dy^T x. dy and x are operands.
  void backward_weight(const LinearShape& shape, const void* dy, const void* x, float* dweight);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::intra
