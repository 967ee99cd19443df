// Outer rounds' kernels: canonical, without fused multiply-adds (sources.cmake).
#include <variant>

#include "compression/cuda/error.h"
#include "compression/cuda/kernels.h"
#include "intra/cuda/jobs/element_kernel.cuh"
#include "intra/cuda/jobs/kernels.h"

namespace causeway::intra::cuda {

void launch(const OuterJob& job, cudaStream_t stream) {
  std::visit(
      [stream](const auto& one) {
        if constexpr (ElementJob<std::remove_cvref_t<decltype(one)>>) {
          launch_elements(one, stream);
        } else {
          compression::cuda::launch(one, stream);
        }
      },
      job);
  compression::cuda::check(cudaGetLastError(), "launching a kernel of the outer round");
}

}  // namespace causeway::intra::cuda
