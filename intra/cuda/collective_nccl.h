// Collective over NCCL: one rank per GPU. Spans in a GPU's memory are summed and gathered there,
// over NVLink or the network; what lies in host memory goes the way that its group of hosts has.
//
// A dead or hung rank stops its neighbours' kernels, which no host call can end but aborting the
// communicator: every wait here polls for the end, for NCCL's own errors, and for the deadline.
#pragma once

#include <chrono>
#include <memory>

#include "intra/collective.h"
#include "intra/cuda/device.h"

namespace causeway::intra::cuda {

class NcclCollective : public Collective {
 public:
  // The stream that sums are made on. What a span holds must be made to precede it:
  // stream().wait_for(an event after the kernels that write it).
  virtual const Stream& stream() const = 0;
};

// `hosts`: the same ranks' group for host memory; NCCL's id goes through it. `deadline`: of forming
// and of every operation. Uses the calling thread's current device. Throws Errc::collective as
// make_collective() does, on every rank, and std::system_error if NCCL is not installed.
std::unique_ptr<NcclCollective> make_nccl_collective(std::unique_ptr<Collective> hosts,
                                                     std::chrono::milliseconds deadline);

}  // namespace causeway::intra::cuda
