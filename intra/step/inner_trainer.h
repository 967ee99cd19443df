// Inner steps: what happens K times between two outer rounds. The fully synchronous baseline runs
// the same steps in one group over all regions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "diloco/maths/digest.h"
#include "diloco/maths/train.h"
#include "intra/collective/collective.h"
#include "intra/outer/outer_spans.h"
#include "intra/step/stepper.h"
#include "intra/step/training_state.h"
#include "intra/step/worker_options.h"

namespace causeway::intra {

struct InnerStep {
  std::uint64_t index = 0;    // over the whole run: learning rate and dropout depend on it
  std::uint64_t cursor = 0;   // the region's sample number of the first sample of this step's batch
  diloco::DataShare share{};  // without a count: as configured
};

struct StepOutcome {
  double loss = 0;    // mean over the whole batch, nats per token; 0 where nothing was computed
  bool stop = false;  // some rank asked to stop
  double in_region_s = 0;  // that the step waited for sums over the ranks
};

class InnerTrainer {
 public:
  virtual ~InnerTrainer() = default;

  // The group that steps are taken with, until leave(). `state` outlives that.
  virtual void join(Collective& group, TrainingState& state) = 0;
  virtual void leave() = 0;

  // One step on the parameters and moments of the state; its scratch is used. All ranks of the
  // group call it; `stop_requested` of any of them reaches all. Throws Errc::not_finite on all
  // ranks, with the parameters untouched.
  virtual StepOutcome step(const InnerStep& step, bool stop_requested) = 0;

  // For what the host has to do beside a step, before gradients are summed over the ranks.
  virtual HostWork& host_work() = 0;

  // Where outer rounds compute on the joined state, parameters included; null: in the state itself.
  virtual OuterSpans* outer_spans() { return nullptr; }

  // Must be called when the state's parameters, or moments, were changed otherwise than by step()
  // or in outer_spans().
  virtual void params_changed() = 0;
  virtual void moments_changed() {}

  // Must be called before the state's parameters, or all that steps change, are read or partly
  // changed after a step: a device keeps its own, and the state's then follow; and with
  // train.shard_optimizer a rank has the moments of its own parts alone from one step to
  // Settle::all, which all ranks of the group call together.
  virtual void settle(Settle) {}

  // What its driver calls the device that it computes on.
  virtual std::string device() const { return "CPU"; }
  // In use there, by whomever, when more was last needed; 0: it is the host.
  virtual std::uint64_t device_memory_peak_bytes() const { return 0; }

  // Loss of `params` on so many sequences of the validation part, shared among the ranks of the
  // group.
  virtual double evaluate(std::span<const float> params, std::uint64_t sequences) = 0;
  // Likewise on data.validation_files; none: there are none.
  virtual std::optional<double> evaluate_common(std::span<const float> /*params*/,
                                                std::uint64_t /*sequences*/) {
    return std::nullopt;
  }

  // As far as it is read by now. May take a while when it is asked first, and throw Errc::bad_data
  // or data_changed.
  virtual diloco::DataDigests data() { return {}; }
  // As the Dataset's.
  virtual void check_data_unchanged() {}
  virtual void check_data_is_current() const {}
};

// The weights that a run begins with, the same in every region: a published model's, or drawn from
// the seed. Throws Errc::bad_checkpoint if the former are not those of the model.
void initial_weights(const WorkerOptions& options, const diloco::Layout& layout,
                     std::span<float> params);

// Checks that the batch divides among the ranks. Throws Errc::bad_model saying what does.
void check_batch(const WorkerOptions& options);

// Trains the model on the data, which it opens, with the stepper. `options` outlives the trainer.
std::unique_ptr<InnerTrainer> make_model_trainer(const WorkerOptions& options,
                                                 std::unique_ptr<Stepper> stepper);

// Steps that take a given time and compute nothing: for measuring how well regions are kept busy
// when the machine cannot compute for all of them at once. Everything around the steps is real;
// runs made with it are labelled.

// train.timed_step_ms per step. Parameters change a little in every step, differently in every
// region, so that pseudo-gradients and payloads are real. The loss is always 0, the validation loss
// not a number. `options` outlives the trainer.
std::unique_ptr<InnerTrainer> make_timed_trainer(const WorkerOptions& options);

}  // namespace causeway::intra
