// Before kernels that the host plays (fibres.h): CUDA's words, for a C++ compiler. They are
// compiled as for a device, so that the code is in that only devices run.
#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "tests/gpu_double/cudart.h"
#include "tests/gpu_double/host_kernels/fibres.h"

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __shared__ static  // blocks come one after the other
#define __launch_bounds__(...)
#define __CUDA_ARCH__ 900

namespace causeway::gpu_double {

struct Number {
  unsigned (*value)();
  struct X {
    unsigned (*value)();
    operator unsigned() const { return value(); }
  } x{value};
};

template <typename T>
std::uint64_t packed(T value) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}
template <typename T>
T unpacked(std::uint64_t word) {
  T value{};
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// f<<<blocks, threads, 0, stream>>>(job), which the build writes as launch_on_host(...)(job).
template <typename Kernel>
auto launch_on_host(Kernel kernel, unsigned blocks, unsigned threads, unsigned,
                    cudaStream_t stream) {
  return [=](const auto& job) {
    if (blocks == 0) refuse("a grid of no blocks");
    enqueue(stream, [=] { run_grid(blocks, threads, [&] { kernel(job); }); });
  };
}

}  // namespace causeway::gpu_double

inline const causeway::gpu_double::Number threadIdx{&causeway::gpu_double::thread_of_block};
inline const causeway::gpu_double::Number blockIdx{&causeway::gpu_double::block_of_grid};

inline void __syncthreads() {
  causeway::gpu_double::meet_block("__syncthreads", 0);
}
inline int __syncthreads_count(int predicate) {
  const std::uint64_t* const all =
      causeway::gpu_double::meet_block("__syncthreads_count", predicate != 0);
  int count = 0;
  for (unsigned i = 0; i < causeway::gpu_double::threads_of_block(); ++i) count += all[i] != 0;
  return count;
}
inline int __syncthreads_or(int predicate) {
  return __syncthreads_count(predicate) > 0;
}
inline void __syncwarp() {
  causeway::gpu_double::meet_warp("__syncwarp", 0);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int distance) {
  using namespace causeway::gpu_double;
  if (mask != ~0U) refuse("a shuffle of some lanes of a warp");
  const unsigned lane = thread_of_block() % 32;
  return unpacked<T>(meet_warp("__shfl_xor_sync", packed(value))[lane ^ unsigned(distance)]);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  using namespace causeway::gpu_double;
  if (mask != ~0U) refuse("a ballot of some lanes of a warp");
  const std::uint64_t* const all = meet_warp("__ballot_sync", predicate != 0);
  unsigned word = 0;
  for (unsigned i = 0; i < 32; ++i) word |= unsigned(all[i]) << i;
  return word;
}
inline unsigned atomicOr(unsigned* word, unsigned mask) {
  const unsigned before = *word;
  *word |= mask;
  return before;
}
