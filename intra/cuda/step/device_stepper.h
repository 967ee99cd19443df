// Steps on a Backend. Parameters and moments stay on the device between steps; the state's own
// copies, which outer rounds and checkpoints use, follow when settle() asks for them.
#pragma once

#include <memory>

#include "intra/cuda/jobs/backend.h"
#include "intra/step/stepper.h"

namespace causeway::intra::cuda {

// With room for a micro-batch of the region at full strength; more sequences are taken in parts.
// `options` outlive the stepper. Throws Errc::bad_model if the backend's jobs cannot run the model.
std::unique_ptr<Stepper> make_device_stepper(const WorkerOptions& options,
                                             std::unique_ptr<Backend> backend);

}  // namespace causeway::intra::cuda
