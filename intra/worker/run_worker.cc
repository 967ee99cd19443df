#include "intra/worker/run_worker.h"

#include <cassert>
#include <chrono>
#include <filesystem>
#include <system_error>

#include <spdlog/spdlog.h>

#include "diloco/files/file_io.h"
#include "diloco/maths/digest.h"
#include "diloco/worker/worker_session.h"
#include "intra/base/error.h"
#include "intra/collective/collective.h"
#include "intra/published/checkpoint.h"
#include "intra/step/memory_need.h"
#include "intra/step/training_state.h"
#include "intra/worker/make_inner_trainer.h"
#include "intra/worker/region_worker.h"
#include "intra/worker/state_saver.h"
#include "intra/worker/time_keeper.h"
#include "intra/worker/worker_result.h"

namespace causeway::intra {

WorkerResult run_worker(const WorkerOptions& options, const std::function<bool()>& interrupted) {
  const std::vector<MemoryPart> need = memory_need(options);
  spdlog::info("{}", describe(need));
  check_memory(need);
  if (options.synchronous) return run_synchronous(options, interrupted);
  return RegionWorker(options, interrupted, diloco::WorkerSession::attach).run();
}

namespace {

constexpr std::chrono::milliseconds kStatusInterval{250};

std::filesystem::path meeting_place(const std::filesystem::path& region_directory) {
  return (std::filesystem::absolute(region_directory) / ".." / "gloo").lexically_normal();
}

class SynchronousWorker {
 public:
  SynchronousWorker(const WorkerOptions& options, const std::function<bool()>& interrupted)
      : options_(options),
        interrupted_(interrupted),
        layout_(parameter_tensors(options.model)),
        state_(options.inner, layout_, kept_by(options)),
        group_(make_collective({.directory = meeting_place(options.directory),
                                .generation = options.synchronous->generation,
                                .rank = options.synchronous->rank,
                                .world = options.synchronous->world})),
        trainer_(make_inner_trainer(options)) {
    initial_weights(options, layout_, state_.params);
  }

  WorkerResult run() {
    if (leads()) diloco::create_private_directories(options_.directory);
    trainer_->join(*group_, state_);
    time_.enter("compute");
    show("compute");
    while (state_.steps < options_.train.steps) take_step();
    show("evaluate");
    WorkerResult result = evaluate();
    together(*group_, "writing the result", [&] {
      if (leads()) leave(result);
    });
    show("done");
    trainer_->leave();
    return result;
  }

 private:
  // In its region; the group is larger.
  bool leads() const { return options_.rank == 0; }

  void take_step() {
    const auto batch = static_cast<std::uint64_t>(options_.train.batch);
    time_.charge_wait();
    const StepOutcome outcome =
        trainer_->step({state_.steps, state_.steps * batch}, interrupted_());
    time_.charge_steps();
    state_.spent.in_region_s += outcome.in_region_s;
    ++state_.steps;
    state_.tokens +=
        batch * options_.regions_computed() * static_cast<std::uint64_t>(options_.model.context);
    if (outcome.stop) {
      trainer_->leave();
      throw std::system_error(Errc::interrupted,
                              "the synchronous baseline was interrupted; it starts over next time");
    }
    if (options_.train.timed_step_ms == 0) progress_.set_loss(outcome.loss);
    if (Clock::now() - shown_ >= kStatusInterval) show("compute");
  }

  WorkerResult evaluate() {
    trainer_->settle(Settle::params);
    fill_in();
    WorkerResult result{
        .progress = progress_,
        .run_steps = options_.train.steps,
        .params_digest = diloco::to_hex(diloco::merkle_root(diloco::merkle_leaves(state_.params))),
        .timed_steps = options_.train.timed_step_ms > 0};
    result.progress.set_val_loss(
        trainer_->evaluate(state_.params, options_.train.validation_sequences));
    return result;
  }

  void leave(const WorkerResult& result) {
    save_model(checkpoint_directory(options_.directory) / "final", options_.model, layout_,
               state_.params, {{"run", "synchronous"}, {"step", std::to_string(state_.steps)}},
               options_.origin);
    write_result(options_.directory, result);
  }

  void show(const char* phase) {
    if (!leads()) return;
    shown_ = Clock::now();
    fill_in();
    progress_.set_phase(phase);
    showing_.attempt([this] { write_status(options_.directory, progress_); });
  }

  void fill_in() {
    progress_.set_step(state_.steps);
    progress_.set_tokens(state_.tokens);
    progress_.set_tokens_per_s(state_.tokens_per_s());
    intra::fill_in(progress_, options_, state_, *trainer_);
  }

  using Clock = std::chrono::steady_clock;

  const WorkerOptions& options_;
  const std::function<bool()>& interrupted_;
  diloco::Layout layout_;
  TrainingState state_;
  std::unique_ptr<Collective> group_;
  std::unique_ptr<InnerTrainer> trainer_;  // uses the group
  TimeKeeper time_{state_.spent};
  diloco::Progress progress_;
  Saving showing_{"status.json"};
  Clock::time_point shown_{};
};

}  // namespace

WorkerResult run_synchronous(const WorkerOptions& options,
                             const std::function<bool()>& interrupted) {
  assert(options.synchronous);
  return SynchronousWorker(options, interrupted).run();
}

}  // namespace causeway::intra
