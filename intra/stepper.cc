#include "intra/stepper.h"

#include "intra/cuda/device_stepper.h"

namespace causeway::intra {

std::unique_ptr<Stepper> make_stepper(const WorkerOptions& options) {
  if (options.train.device == Device::cpu) return make_cpu_stepper(options);
  return cuda::make_device_stepper(options, cuda::make_cuda_backend(options.rank));
}

}  // namespace causeway::intra
