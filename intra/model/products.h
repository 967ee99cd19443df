// What the matrix products multiply. Operands (activations and weights) are held as fp32, as fp32
// whose values are rounded to bfloat16, or as bfloat16; sums are always fp32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "intra/model/model.h"

namespace causeway::intra {

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

}  // namespace causeway::intra
