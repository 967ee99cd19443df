// cub::BlockScan for kernels that the host plays. The storage may be used again after a barrier.
#pragma once

#include "tests/gpu_double/host_kernels/device_code.h"

namespace cub {

template <typename T, int kThreads>
class BlockScan {
 public:
  struct TempStorage {
    T values[kThreads];
  };

  explicit BlockScan(TempStorage& storage) : storage_(storage) {}

  void ExclusiveSum(T mine, T& before) {
    storage_.values[threadIdx.x] = mine;
    causeway::gpu_double::meet_block("cub::BlockScan", 0);
    before = 0;
    for (unsigned i = 0; i < threadIdx.x; ++i) before += storage_.values[i];
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
