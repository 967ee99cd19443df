// RegionWorker: what a region shows of itself while it works.
#include <algorithm>

#include <spdlog/spdlog.h>

#include "intra/worker/region_worker.h"

namespace causeway::intra {
namespace {

// Weight of the newest step in the rate that displays show.
constexpr double kRateWeight = 0.2;

}  // namespace

void RegionWorker::sat_out(const std::string& tensor, std::uint32_t steps) {
  spdlog::error(
      "round {}: {} became NaN or infinite. This region sits the round out, drops its {} inner "
      "steps and follows the other regions; lower inner.lr or inner.clip_norm",
      state_.version, tensor, steps);
}

// Time counts from when there is something to do.
void RegionWorker::enter(const std::string& phase) {
  if (phase != "wait") stopwatch_.start();
  charge_wait();
  progress_.set_phase(phase);
  report();
}

void RegionWorker::waiting(const std::string&) {
  report();
}

// Inner steps charge their own time as soon as they end.
void RegionWorker::charge_wait() {
  const double seconds = stopwatch_.charge(state_.wait_s);
  if (progress_.phase() == "encode" || progress_.phase() == "apply") state_.outer_s += seconds;
}

// Returns the seconds that the step took alone.
double RegionWorker::charge_step() {
  const double held_up_s = trainer_->host_work().take_held_up_s();
  const double seconds = stopwatch_.charge(state_.compute_s) - held_up_s;
  state_.compute_s -= held_up_s;
  state_.wait_s += held_up_s;
  state_.outer_s += held_up_s;
  return seconds;
}

void RegionWorker::show(const StepOutcome& outcome, double seconds) {
  const double rate = seconds > 0 ? static_cast<double>(batch().tokens) / seconds : 0;
  progress_.set_tokens_per_s(progress_.tokens_per_s() +
                             (progress_.tokens_per_s() == 0 ? 1 : kRateWeight) *
                                 (rate - progress_.tokens_per_s()));
  progress_.set_loss(outcome.loss);
  report();
}

void RegionWorker::report() {
  charge_wait();
  progress_.set_tokens(state_.steps * batch().tokens);
  fill_in(progress_, options_, state_, *trainer_);
  driver_.report(progress_);
}

}  // namespace causeway::intra
