// The three matrix products of a linear layer, by oneDNN. Primitives are created once per shape; a
// call then only sets addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "intra/model/model.h"

namespace causeway::intra {

// What the matrix products multiply. Operands (activations and weights) are held as fp32, as fp32
// whose values are rounded to bfloat16, or as bfloat16; sums are always fp32.
enum class Products {
  fp32,
  bf16,           // bfloat16 operands, multiplied by the CPU's own instructions
  bf16_emulated,  // the same values in fp32 storage, for CPUs without such instructions: same
                  // numerics, fp32 speed
};

// bf16 where oneDNN would use AVX512_BF16 or AMX.
Products choose_products(ModelOptions::Precision precision);

inline std::size_t operand_bytes(Products products) {
  return products == Products::bf16 ? 2 : 4;
}

// The address of element `index` of an operand.
inline void* operand_at(Products products, void* operand, std::int64_t index) {
  return static_cast<std::byte*>(operand) +
         static_cast<std::size_t>(index) * operand_bytes(products);
}
inline const void* operand_at(Products products, const void* operand, std::int64_t index) {
  return static_cast<const std::byte*>(operand) +
         static_cast<std::size_t>(index) * operand_bytes(products);
}

// operand <- values, rounded as `products` says. With fp32 storage they may be the same array; with
// Products::fp32 that costs nothing.
void make_operand(Products products, std::int64_t count, const float* values, void* operand);

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
  // dweight = dy^T x, or dweight += dy^T x. dy and x are operands.
  void backward_weight(const LinearShape& shape, const void* dy, const void* x, float* dweight,
                       bool accumulate);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::intra
