// What a region shows of itself while it works.
#include <algorithm>

#include <spdlog/spdlog.h>

#include "intra/region_worker.h"

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

void RegionWorker::enter(const std::string& phase) {
  progress_.phase = phase;
  report();
}

void RegionWorker::report() {
  stopwatch_.charge(state_.wait_s);  // inner steps charge their own time as soon as they end
  progress_.step = std::max(progress_.step, schedule_step_ + state_.step_in_round());
  progress_.round = state_.version;
  progress_.tokens = state_.tokens;
  progress_.compute_s = state_.compute_s;
  progress_.wait_s = state_.wait_s;
  gathering_->tell([this](auto& session) { session.report(progress_); });
}

}  // namespace causeway::intra
