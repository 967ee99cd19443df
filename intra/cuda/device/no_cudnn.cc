// In a build without the headers of cuDNN's frontend.
#include <spdlog/spdlog.h>

#include "intra/cuda/device/cuda_backend.h"

namespace causeway::intra::cuda {

std::unique_ptr<FusedAttention> make_fused_attention() {
  spdlog::warn(
      "attention runs on plain kernels, several times slower than cuDNN's: this program was built "
      "without cuDNN's frontend (pip install nvidia-cudnn-frontend, then configure again)");
  return nullptr;
}

}  // namespace causeway::intra::cuda
