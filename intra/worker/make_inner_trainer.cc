#include "intra/worker/make_inner_trainer.h"

#include "intra/cuda/step/device_stepper.h"

namespace causeway::intra {
namespace {

std::unique_ptr<Stepper> make_stepper(const WorkerOptions& options) {
  if (options.train.device == Device::cpu) return make_cpu_stepper(options);
  return cuda::make_device_stepper(
      options, cuda::make_cuda_backend(options.local_rank, options.train.time_products));
}

}  // namespace

std::unique_ptr<InnerTrainer> make_inner_trainer(const WorkerOptions& options) {
  check_batch(options);
  if (options.train.timed_step_ms > 0) return make_timed_trainer(options);
  return make_model_trainer(options, make_stepper(options));
}

}  // namespace causeway::intra
