// The trainer that a worker's options ask for.
#pragma once

#include <memory>

#include "intra/step/inner_trainer.h"

namespace causeway::intra {

// As options.train.device says. Throws what to do if that device is not there.
std::unique_ptr<Stepper> make_stepper(const WorkerOptions& options);

// Checks that the batch divides among the ranks, opens the data and builds the model; with timed
// steps (train.timed_step_ms) neither is needed. `options` outlives the trainer.
std::unique_ptr<InnerTrainer> make_inner_trainer(const WorkerOptions& options);

}  // namespace causeway::intra
