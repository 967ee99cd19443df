// Tests that need a GPU say so and are skipped without one.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace causeway::intra::cuda {

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
      GTEST_SKIP() << "not run: no GPU";
    }
  }
};

}  // namespace causeway::intra::cuda
