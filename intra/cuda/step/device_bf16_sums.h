// Sums over ranks that travel as bfloat16 (collective/bf16_sums.h), of spans in a backend's memory.
#pragma once

#include <memory>

#include "intra/collective/bf16_sums.h"
#include "intra/cuda/jobs/backend.h"

namespace causeway::intra::cuda {

// Of spans whose parts are whole packs. Rounds and adds up in a queue of its own, beside the
// steps'. `group`: the ranks, for spans in the backend's memory; null: they meet on the host, as
// `hosts`. All outlive it.
std::unique_ptr<Collective> make_device_bf16_sums(Collective* group, Collective& hosts,
                                                  Backend& backend, const Bf16Room& room);

}  // namespace causeway::intra::cuda
