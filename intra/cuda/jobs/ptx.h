// Instructions that C++ has no words for, for code that runs on a GPU alone. Each is named after
// its text, and takes its operands in the order of the PTX ISA. The tests play kernels on the host
// with another such header (tests/gpu_double/host_kernels).
#pragma once

#include <cstdint>

namespace causeway::intra::cuda::ptx {

// `upper` to the upper half, `lower` to the lower one.
constexpr std::uint32_t cvt_rn_bf16x2_f32(float upper, float lower) {
  std::uint32_t pair = 0;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(upper), "f"(lower));
  return pair;
}

constexpr float ex2_approx_ftz_f32(float x) {
  float power = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

}  // namespace causeway::intra::cuda::ptx
