// In a build without NCCL's header.
#include <spdlog/spdlog.h>

#include "intra/cuda/device/collective_nccl.h"

namespace causeway::intra::cuda {

std::unique_ptr<Collective> make_nccl_collective(Collective&, std::chrono::milliseconds) {
  spdlog::warn(
      "gradients are summed by way of the host: this program was built without NCCL (put nccl.h "
      "beside CUDA's headers, then configure again)");
  return nullptr;
}

}  // namespace causeway::intra::cuda
