// The trainer that a worker's options ask for.
#pragma once

#include <memory>

#include "intra/step/inner_trainer.h"
#include "intra/step/worker_options.h"

namespace causeway::intra {

// Checks that the batch divides among the ranks, opens the data, and builds the model on
// options.train.device; throws what to do if that device is not there. With timed steps
// (train.timed_step_ms) no data, model or device is needed. `options` outlives the trainer.
std::unique_ptr<InnerTrainer> make_inner_trainer(const WorkerOptions& options);

}  // namespace causeway::intra
