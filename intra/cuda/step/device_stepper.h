// Steps on a Backend. Parameters and moments stay on the device between steps; the state's own
// copies, which outer rounds and checkpoints use, follow when settle() asks for them.
#pragma once

#include <memory>

#include "intra/collective/collective.h"
#include "intra/cuda/jobs/backend.h"
#include "intra/step/stepper.h"

namespace causeway::intra::cuda {

// A group for spans in a backend's memory, by way of the host's: for GPUs that NCCL does not reach.
// Every call brings its values to the host and back, in the queue. Both outlive it.
std::unique_ptr<Collective> make_host_sums(Collective& hosts, Queue& queue);

// With room for a micro-batch of the region at full strength; more sequences are taken in parts.
// `options` outlive the stepper. Throws Errc::bad_model if the backend's jobs cannot run the model.
std::unique_ptr<Stepper> make_device_stepper(const WorkerOptions& options,
                                             std::unique_ptr<Backend> backend);

}  // namespace causeway::intra::cuda
