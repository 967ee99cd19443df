// The worker of a region that takes part in a run: the loop of run_worker.h. What the coordinator
// tells it is round_driver.h's business; this has the ranks, the model's steps, and the result.
//
//   gather ──► next ──► steps ──► next ... ──► evaluate, result
//     ▲          │
//     │          │ coordinator lost: all stays in memory, and is saved as well
//     └──────────┤ a rank lost or back: the ranks that are there take the newest state of any
//                │ interrupted: save, throw
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "diloco/maths/layout.h"
#include "intra/outer/outer_round.h"
#include "intra/step/inner_trainer.h"
#include "intra/step/training_state.h"
#include "intra/step/worker_options.h"
#include "intra/worker/gathering.h"
#include "intra/worker/round_driver.h"
#include "intra/worker/step_proofs.h"
#include "intra/worker/time_keeper.h"
#include "intra/worker/worker_result.h"

namespace causeway::intra {

class RegionWorker final : private RoundTrainer {
 public:
  // Opens data and model, and the state on disk if there is one. `options` outlives the worker.
  RegionWorker(const WorkerOptions& options, Interrupted interrupted, Attach attach);

  // As run_worker().
  WorkerResult run();

  const TrainingState& state() const { return state_; }

 private:
  bool load();
  void begin_run();
  OuterRound make_round() const;
  // What a worker of this region left of the whole run.
  std::optional<WorkerResult> result() const;
  std::optional<WorkerResult> result_of_others() const;  // that are ahead of this one
  void gather();
  std::unique_ptr<Gathering> attach();

  void take(const Stint& stint);
  // False: loss or gradient was not finite, and the parameters are not to be used.
  bool inner_step(const Stint& stint);
  WorkerResult finish();
  WorkerResult make_result();

  OuterSpans& spans() override;
  OuterRound::Batch batch() const override;
  void enter(const std::string& phase) override;
  void waiting(const std::string& what) override;
  void count_up_to(std::uint64_t steps) override;
  void beside_next_step(const std::function<void()>& work) override;
  void spoil_params() override;
  void reset_moments() override;
  std::optional<diloco::Digest> proof() override;
  void sat_out(const std::string& tensor, std::uint32_t steps) override;
  void anchor_moved() override;
  void replace_state(const std::function<void()>& replace) override;
  void start_afresh() override;
  void settle_state() override;
  StateImage image() override;
  void hold_back_steps(const std::function<void()>& read) override;
  [[noreturn]] void stop() override;

  void show(const StepOutcome& outcome, double seconds);
  void tell_what_was_read();
  void validate();
  void report() override;

  const WorkerOptions& options_;
  Interrupted interrupted_;
  std::optional<WorkerResult> ended_by_others_;
  Attach attach_;
  diloco::Layout layout_;
  TrainingState state_;
  HostSpans host_spans_;
  RoundDriver driver_;
  StepProofs proofs_;
  std::unique_ptr<Gathering> gathering_;
  std::unique_ptr<InnerTrainer> trainer_;  // uses the gathering's group
  diloco::DataDigests data_;               // as the coordinator knows them
  bool has_attached_ = false;              // since this process began, or tried to
  diloco::Progress progress_;
  TimeKeeper time_{state_.spent};
};

// Where the time of a worker of ours went so far and what it needs, with the MFU of
// progress.tokens_per_s.
void fill_in(diloco::Progress& progress, const WorkerOptions& options, const TrainingState& state,
             const InnerTrainer& trainer);

}  // namespace causeway::intra
