// intra/cuda/jobs/ptx.h for kernels that the host plays: what the PTX ISA says of each.
#pragma once

#include <bit>
#include <cstdint>

namespace causeway::intra::cuda::ptx {

constexpr std::uint32_t nearest_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return 0x7FFF;  // NaN
  const std::uint32_t below = bits >> 16, rest = bits & 0xFFFF;
  return below + (rest > 0x8000 || (rest == 0x8000 && below % 2 == 1) ? 1 : 0);
}

constexpr std::uint32_t cvt_rn_bf16x2_f32(float upper, float lower) {
  return nearest_bf16(upper) << 16 | nearest_bf16(lower);
}

constexpr float ex2_approx_ftz_f32(float x) {
  const float power = __builtin_exp2f(x);
  return power < 0x1p-126F ? 0 : power;
}

}  // namespace causeway::intra::cuda::ptx
