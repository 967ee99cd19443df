// The fully synchronous baseline: what the run would be if regions averaged their gradients in
// every step. Same model, seeds, schedule, data order, batch per region and number of steps; no
// coordinator and no outer optimizer.
#pragma once

#include <functional>

#include "intra/step/worker_options.h"
#include "intra/worker/worker_result.h"

namespace causeway::intra {

// options.synchronous is set. The regions' directories are siblings: the group meets in "gloo"
// beside them. Each region's first rank leaves result.json, checkpoints/final, and status.json
// while it runs; the model is the same for all. Throws Errc::interrupted without saving: a baseline
// starts over.
WorkerResult run_synchronous(const WorkerOptions& options,
                             const std::function<bool()>& interrupted);

}  // namespace causeway::intra
