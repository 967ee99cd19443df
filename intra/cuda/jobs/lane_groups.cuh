// A warp and a thread block as groups of lanes (jobs.h). Sums are trees of a fixed shape: the same
// bits in every run. The members count as host code too, for the constexpr functions that call them
// do; they run on the device only.
#pragma once

#include <cstdint>
#include <nv/target>

namespace causeway::intra::cuda {

template <typename T>
class OfLane {
 public:
  constexpr T& of(unsigned) { return value_; }
  constexpr const T& of(unsigned) const { return value_; }

 private:
  T value_{};
};

struct Plus {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Larger {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

// The same for every lane of the warp.
template <typename T, typename Combine>
__device__ T combine_warp(T value, const Combine& combine) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(~0U, value, distance));
  }
  return value;
}

class WarpGroup {
 public:
  template <typename T>
  using PerLane = OfLane<T>;
  struct Memory {};

  explicit __device__ WarpGroup(Memory&) {}

  template <typename F>
  __host__ __device__ void each(const F& f) const {
    NV_IF_TARGET(NV_IS_DEVICE, (f(threadIdx.x % 32); __syncwarp();))
  }
  template <typename F>
  __host__ __device__ auto sum(const F& f) const -> decltype(f(0U)) {
    NV_IF_TARGET(NV_IS_DEVICE, (return combine_warp(f(threadIdx.x % 32), Plus{});))
    return {};
  }
  template <typename F>
  __host__ __device__ auto max(const F& f) const -> decltype(f(0U)) {
    NV_IF_TARGET(NV_IS_DEVICE, (return combine_warp(f(threadIdx.x % 32), Larger{});))
    return {};
  }
};

template <unsigned kLanes>
class BlockGroup {
 public:
  template <typename T>
  using PerLane = OfLane<T>;
  struct Memory {
    double of_warp[kLanes / 32];
  };

  explicit __device__ BlockGroup(Memory& memory) : memory_(memory) {}

  template <typename F>
  __host__ __device__ void each(const F& f) const {
    NV_IF_TARGET(NV_IS_DEVICE, (f(threadIdx.x); __syncthreads();))
  }
  template <typename F>
  __host__ __device__ auto sum(const F& f) const -> decltype(f(0U)) {
    NV_IF_TARGET(NV_IS_DEVICE, (return combine(f(threadIdx.x), Plus{});))
    return {};
  }
  template <typename F>
  __host__ __device__ auto max(const F& f) const -> decltype(f(0U)) {
    NV_IF_TARGET(NV_IS_DEVICE, (return combine(f(threadIdx.x), Larger{});))
    return {};
  }

 private:
  // A float passes through a double unchanged.
  template <typename T, typename Combine>
  __device__ T combine(T value, const Combine& combine_two) const {
    value = combine_warp(value, combine_two);
    if (threadIdx.x % 32 == 0) memory_.of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = static_cast<T>(memory_.of_warp[0]);
    for (unsigned warp = 1; warp < kLanes / 32; ++warp) {
      value = combine_two(value, static_cast<T>(memory_.of_warp[warp]));
    }
    __syncthreads();
    return value;
  }

  Memory& memory_;
};

}  // namespace causeway::intra::cuda
