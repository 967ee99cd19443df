// cub::BlockReduce for kernels that the host plays: thread 0 alone gets the result, and the storage
// may be used again after a barrier.
#pragma once

#include <algorithm>
#include <functional>

#include "tests/gpu_double/host_kernels/device_code.h"

namespace cuda {
namespace std {
template <typename T = void>
using plus = ::std::plus<T>;
}
template <typename T = void>
struct maximum {
  template <typename U>
  U operator()(U a, U b) const {
    return ::std::max(a, b);
  }
};
}  // namespace cuda

namespace cub {

template <typename T, int kThreads>
class BlockReduce {
 public:
  struct TempStorage {
    T values[kThreads];
  };

  explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

  template <typename Combine>
  T Reduce(T mine, Combine combine) {
    storage_.values[threadIdx.x] = mine;
    causeway::gpu_double::meet_block("cub::BlockReduce", 0);
    if (threadIdx.x != 0) return static_cast<T>(0xEEEEEEEEEEEEEEEE);  // not said
    T all = storage_.values[0];
    for (int i = 1; i < kThreads; ++i) all = combine(all, storage_.values[i]);
    return all;
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
