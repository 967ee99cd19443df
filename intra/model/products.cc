#include "intra/model/products.h"

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>

#include "intra/model/kernels/kernels.h"

namespace causeway::intra {

Products choose_products(ModelOptions::Precision precision) {
  if (precision == ModelOptions::Precision::fp32) return Products::fp32;
  // Instruction sets are bit masks in which a larger set contains the smaller one's bits.
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  const auto available = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (available & kNeeded) == kNeeded ? Products::bf16 : Products::bf16_emulated;
}

void make_operand(Products products, std::int64_t count, const float* values, void* operand) {
  switch (products) {
    case Products::fp32:
      if (operand != values) std::copy_n(values, count, static_cast<float*>(operand));
      break;
    case Products::bf16:
      convert_to_bf16(count, values, static_cast<std::uint16_t*>(operand));
      break;
    case Products::bf16_emulated:
      round_to_bf16(count, values, static_cast<float*>(operand));
      break;
  }
}

}  // namespace causeway::intra
