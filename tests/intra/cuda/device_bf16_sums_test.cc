// Sums in bfloat16 on a device, played on the CPU.
#include "intra/cuda/step/device_bf16_sums.h"

#include <gtest/gtest.h>

#include "tests/intra/collective/bf16_sums_conformance.h"
#include "tests/intra/cuda/on_backend.h"
#include "tests/intra/cuda/serial_backend.h"

namespace causeway::intra {
namespace {

Bf16SumsUnderTest on_serial(std::size_t world, bool reaches_ranks) {
  return {reaches_ranks ? "Serial" : "SerialByHosts", world,
          cuda::sums_on_backend([reaches_ranks](std::size_t rank) {
            return std::make_unique<cuda::SerialBackend>(rank % 2 == 1, reaches_ranks);
          })};
}
INSTANTIATE_TEST_SUITE_P(OnDevice, Bf16SumsConformance,
                         testing::Values(on_serial(2, true), on_serial(3, true),
                                         on_serial(2, false), on_serial(3, false)),
                         name_of_sums);

}  // namespace
}  // namespace causeway::intra
