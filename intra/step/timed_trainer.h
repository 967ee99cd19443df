// Steps that take a given time and compute nothing: for measuring how well regions are kept busy
// when the machine cannot compute for all of them at once. Everything around the steps is real;
// runs made with it are labelled.
#pragma once

#include <memory>

#include "intra/step/inner_trainer.h"

namespace causeway::intra {

// train.timed_step_ms per step. Parameters change a little in every step, differently in every
// region, so that pseudo-gradients and payloads are real. The loss is always 0, the validation loss
// not a number. `options` outlives the trainer.
std::unique_ptr<InnerTrainer> make_timed_trainer(const WorkerOptions& options);

}  // namespace causeway::intra
