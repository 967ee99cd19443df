// Charges a worker's time to what it does, from when there is something to do.
#pragma once

#include <chrono>
#include <string>

#include "diloco/worker/worker_session.h"
#include "intra/base/resources.h"

namespace causeway::intra {

class TimeKeeper {
 public:
  // `spent` outlives this.
  explicit TimeKeeper(TimeSpent& spent) : spent_(spent) {}

  // What the worker does from now on, as diloco::Progress has it.
  void enter(const std::string& phase) {
    if (phase != "wait") start();
    charge_wait();
    is_outer_ = phase == "encode" || phase == "apply";
  }

  // Inner steps charge their own time as soon as they end: until now there was none.
  void charge_wait() {
    const double seconds = charge(spent_.wait_s);
    if (is_outer_) spent_.outer_s += seconds;
  }

  // Inner steps ended. They were held up for so long by work of a round. Returns what they took
  // without it.
  double charge_steps(double held_up_s = 0) {
    const double seconds = charge(spent_.compute_s) - held_up_s;
    spent_.compute_s -= held_up_s;
    spent_.wait_s += held_up_s;
    spent_.outer_s += held_up_s;
    return seconds;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void start() {
    if (!started_) last_ = Clock::now();
    started_ = true;
  }

  // Adds the time since the last charge to `account_s`, and returns it.
  double charge(double& account_s) {
    if (!started_) return 0;
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    account_s += seconds;
    return seconds;
  }

  TimeSpent& spent_;
  bool is_outer_ = false;  // what it does now
  bool started_ = false;
  Clock::time_point last_{};
};

inline void show(const TimeSpent& spent, diloco::Progress& progress) {
  progress.set_compute_s(spent.compute_s);
  progress.set_wait_s(spent.wait_s);
  progress.set_in_region_s(spent.in_region_s);
  progress.set_outer_s(spent.outer_s);
}

}  // namespace causeway::intra
