// The worker of a region that takes part in a run: the loop of worker_loop.h.
//
//   gather ──► next ──► Train | Continue | Collect | Apply | Restore ──► next ... ──► Finish ──►
//     ▲                  │                                               evaluate, result
//     │                  │ coordinator lost: all stays in memory, and is saved as well
//     └──────────────────┤ a rank lost or back: the ranks that are there take the newest state of
//     any
//                        │ interrupted: save, throw
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diloco/maths/layout.h"
#include "intra/base/stopwatch.h"
#include "intra/outer/outer_round.h"
#include "intra/step/inner_trainer.h"
#include "intra/step/training_state.h"
#include "intra/step/worker_options.h"
#include "intra/worker/gathering.h"
#include "intra/worker/worker_result.h"

namespace causeway::intra {

class RegionWorker {
 public:
  // Opens data and model, and the state on disk if there is one. `options` outlives the worker.
  RegionWorker(const WorkerOptions& options, Interrupted interrupted, Attach attach);

  // As run_worker().
  WorkerResult run();

  const TrainingState& state() const { return state_; }

 private:
  void open_state();
  void start_afresh();  // from the initial weights
  OuterRound make_round(std::size_t rank, std::size_t world) const;
  OuterSpans& spans();
  std::optional<WorkerResult> result_of(const TrainingState& state) const;
  void gather();
  diloco::AttachRequest request();
  void recover(const std::system_error& error);

  WorkerResult follow();
  void note_earlier_life();
  void train(const diloco::Train& train);
  SavePlan save_plan() const;
  void take_steps(const diloco::Train& train);
  void go_ahead(const diloco::Train& train, std::function<void()> meanwhile);
  void sit_out();
  void go_on(const diloco::Continue& order);
  void collect(const diloco::Collect& order);
  // False: loss or gradient was not finite, and the parameters are not to be used.
  bool inner_step(std::uint64_t schedule_step, const diloco::DataShare& share,
                  std::function<void()> meanwhile = {});
  void encode();
  Encoding take_delta();
  void encode_delta(Encoding& made);
  void hand_over(InFlight& own);
  void await_stored(InFlight& own);
  void reset_moments();
  void drop_work();
  void count_up_to(std::uint64_t cursor);
  void begin_at(std::uint64_t cursor);
  void apply(const diloco::Apply& apply);
  void evaluate_held_out();
  void restore(const diloco::Restore& restore);
  void check_version(const std::string& what, diloco::Round told) const;
  WorkerResult finish(const diloco::Finish& finish);

  void log(const std::vector<Outcome>& outcomes, diloco::Round round) const;
  OuterRound::Batch batch() const;
  double mfu(double tokens_per_s) const;
  void enter(const std::string& phase);
  void charge_wait();
  double charge_step(const StepOutcome& outcome);
  void report();
  void save();
  void checkpoint();
  [[noreturn]] void stop();

  const WorkerOptions& options_;
  Interrupted interrupted_;
  Attach attach_;
  diloco::Layout layout_;
  TrainingState state_;
  HostSpans host_spans_;
  OuterRound round_;  // of the gathering's ranks
  std::unique_ptr<Gathering> gathering_;
  std::unique_ptr<InnerTrainer> trainer_;  // uses the gathering's group
  diloco::Progress progress_;
  std::uint64_t schedule_step_ = 0;  // of the round in progress, as last heard
  Stopwatch stopwatch_;
  int failures_ = 0;  // gatherings in a row that ended before anything was done
};

}  // namespace causeway::intra
