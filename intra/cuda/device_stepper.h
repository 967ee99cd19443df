// Steps on a Backend. Parameters and moments stay on the device between steps; the state's own
// copies, which outer rounds and checkpoints use, follow when settle() asks for them.
#pragma once

#include <memory>

#include "intra/cuda/backend.h"
#include "intra/stepper.h"

namespace causeway::intra::cuda {

// With room for a micro-batch of the region at full strength; more sequences are taken in parts.
// `options` outlive the stepper. Throws Errc::bad_model if the backend's jobs cannot run the model.
std::unique_ptr<Stepper> make_device_stepper(const WorkerOptions& options,
                                             std::unique_ptr<Backend> backend);

// On GPU `rank` modulo how many there are. Throws std::system_error saying what to do if there is
// none, or if this program was built without CUDA.
std::unique_ptr<Backend> make_cuda_backend(std::uint32_t rank);

}  // namespace causeway::intra::cuda
