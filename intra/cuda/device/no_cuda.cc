// In a build without CUDA.
#include <system_error>

#include "intra/base/error.h"
#include "intra/cuda/jobs/backend.h"

namespace causeway::intra::cuda {

std::unique_ptr<Backend> make_cuda_backend(std::uint32_t, bool) {
  throw std::system_error(
      Errc::no_device,
      "regions.device is cuda, but this program was built without CUDA: build it with nvcc of CUDA "
      "12 or newer on PATH and -DCAUSEWAY_CUDA=ON, or set regions.device to cpu");
}

std::string pci_address(std::uint32_t) {
  return {};
}

}  // namespace causeway::intra::cuda
