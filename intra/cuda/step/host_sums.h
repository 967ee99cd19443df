// A group for spans in a backend's memory, by way of the host's: for GPUs that NCCL does not reach.
#pragma once

#include <memory>

#include "intra/collective/collective.h"
#include "intra/cuda/jobs/backend.h"

namespace causeway::intra::cuda {

// Every call brings its values to the host and back, in the queue. Both outlive it.
std::unique_ptr<Collective> make_host_sums(Collective& hosts, Queue& queue);

}  // namespace causeway::intra::cuda
