// The worker: K inner steps, one outer round, until the run is over (docs/rounds.md).
//
//   attach -> form the region's collective, of the ranks that are there -> agree on the newest
//   state that any of them holds
//   loop: ask the coordinator what to do (rank 0, told to the others by broadcast)
//     Train    K inner steps; delta, residual, encode own segments; gather; contribute
//     Apply    decode every listed payload in region order; outer step on own segments; all-gather;
//              digest
//     Restore  adopt a snapshot; residual <- 0
//     Finish   evaluate, write the final checkpoint, report
#pragma once

#include <functional>

#include "intra/step/worker_options.h"
#include "intra/worker/worker_result.h"

namespace causeway::intra {

// Returns when the run is over. `interrupted` is polled between steps and in every wait: once true,
// state is saved and Errc::interrupted is thrown. All other failures throw std::system_error with a
// message that says what to do.
WorkerResult run_worker(const WorkerOptions& options, const std::function<bool()>& interrupted);

// The fully synchronous baseline: what the run would be if regions averaged their gradients in
// every step. Same model, seeds, schedule, data order, batch per region and number of steps; no
// coordinator and no outer optimizer.

// options.synchronous is set. The regions' directories are siblings: the group meets in "gloo"
// beside them. Each region's first rank leaves result.json, checkpoints/final, and status.json
// while it runs; the model is the same for all. Throws Errc::interrupted without saving: a baseline
// starts over.
WorkerResult run_synchronous(const WorkerOptions& options,
                             const std::function<bool()>& interrupted);

}  // namespace causeway::intra
