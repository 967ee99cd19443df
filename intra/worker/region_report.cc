// What a region shows of itself while it works.
#include <algorithm>

#include <spdlog/spdlog.h>

#include "intra/step/peak_flops.h"
#include "intra/worker/region_worker.h"
#include "intra/worker/worker_result.h"

namespace causeway::intra {

// Work that was not delivered is never lost silently.
void RegionWorker::log(const std::vector<Outcome>& outcomes, diloco::Round round) const {
  if (!gathering_->leads()) return;
  for (const Outcome& outcome : outcomes) {
    const std::string told = sentence(outcome, round);
    if (told.empty()) continue;
    spdlog::log(outcome.fate == Fate::delivered ? spdlog::level::info : spdlog::level::warn, told);
  }
}

double RegionWorker::mfu(double tokens_per_s) const {
  return model_flops_utilisation(options_.model, tokens_per_s, trainer_->device(), options_.world)
      .value_or(0);
}

void RegionWorker::enter(const std::string& phase) {
  charge_wait();
  progress_.phase = phase;
  report();
}

// Inner steps charge their own time as soon as they end.
void RegionWorker::charge_wait() {
  const double seconds = stopwatch_.charge(state_.wait_s);
  if (progress_.phase == "encode" || progress_.phase == "apply") state_.outer_s += seconds;
}

// Returns the seconds that the step took alone.
double RegionWorker::charge_step(const StepOutcome& outcome) {
  const double seconds = stopwatch_.charge(state_.compute_s) - outcome.meanwhile_s;
  state_.compute_s -= outcome.meanwhile_s;
  state_.wait_s += outcome.meanwhile_s;
  state_.outer_s += outcome.meanwhile_s;
  return seconds;
}

void RegionWorker::report() {
  charge_wait();
  progress_.step = std::max(progress_.step, schedule_step_ + state_.step_in_round());
  progress_.round = state_.version;
  progress_.tokens = state_.steps * batch().tokens;
  progress_.compute_s = state_.compute_s;
  progress_.wait_s = state_.wait_s;
  progress_.in_region_s = state_.in_region_s;
  progress_.outer_s = state_.outer_s;
  progress_.memory_peak_bytes = memory_peak_bytes();
  progress_.device_memory_peak_bytes = trainer_->device_memory_peak_bytes();
  progress_.mfu = mfu(progress_.tokens_per_s);
  gathering_->tell([this](auto& session) { session.report(progress_); });
}

}  // namespace causeway::intra
