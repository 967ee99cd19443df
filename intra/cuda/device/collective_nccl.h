// Collective over NCCL: one rank per GPU. Spans in a GPU's memory are summed and gathered there,
// over NVLink or the network; what lies in host memory goes the way that its group of hosts has.
//
// A dead or hung rank stops its neighbours' kernels, which no host call can end but aborting the
// communicator: every wait here polls for the end, for NCCL's own errors, and for the deadline.
#pragma once

#include <chrono>
#include <memory>

#include "intra/collective/collective.h"

namespace causeway::intra::cuda {

// `hosts`: the same ranks' group for host memory, which outlives this one; NCCL's id goes through
// it. `deadline`: of forming and of every operation. Uses the calling thread's current device; what
// is computed there, an operation neither waits for nor holds up. Throws Errc::collective as
// make_collective() does, on every rank. Null, on all ranks alike and with a word in the log, if
// the build found no NCCL, if one of them cannot open it, or if two have the same GPU.
std::unique_ptr<Collective> make_nccl_collective(Collective& hosts,
                                                 std::chrono::milliseconds deadline);

}  // namespace causeway::intra::cuda
