// What computes a trainer's steps: the CPU (cpu_stepper.cc), or a device
// (cuda/step/device_stepper.h). One thread, the group's calls included.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "intra/base/resources.h"
#include "intra/collective/collective.h"
#include "intra/model/model.h"
#include "intra/outer/outer_spans.h"
#include "intra/step/training_state.h"
#include "intra/step/worker_options.h"

namespace causeway::intra {

// What the host has to do beside the next inner step, where that hinders the step least: a device
// computes the step meanwhile; on a CPU one comes after the other.

class HostWork {
 public:
  // Takes the place of what waits.
  void put(std::function<void()> work) { work_ = std::move(work); }
  void drop() { work_ = hold_ = {}; }
  bool waits() const { return static_cast<bool>(work_); }

  // Of whoever takes the step: does the work, once, even if it throws. Returns the seconds that
  // took; 0 if there is none.
  double run() {
    if (!work_) return 0;
    return seconds_of(std::exchange(work_, {}));
  }
  // Until `over` returns, the state's parameters and moments stay as they are.
  void hold_update(std::function<void()> over) { hold_ = std::move(over); }
  // Of whoever takes the step, before it changes them.
  void await_update() {
    if (hold_) held_up(seconds_of(std::exchange(hold_, {})));
  }

  // By so much the work made its step longer.
  void held_up(double seconds) { held_up_s_ += seconds; }

  // By how much steps were made longer since this was last asked.
  double take_held_up_s() { return std::exchange(held_up_s_, 0); }

 private:
  std::function<void()> work_, hold_;
  double held_up_s_ = 0;
};

class Stepper {
 public:
  virtual ~Stepper() = default;

  // As InnerTrainer's of the same names.
  virtual void join(Collective& group, TrainingState& state) = 0;
  virtual void leave() = 0;
  virtual OuterSpans* outer_spans() { return nullptr; }
  virtual void params_changed() = 0;
  virtual void moments_changed() {}
  virtual void settle(Settle) {}
  virtual std::string device() const = 0;
  virtual std::uint64_t device_memory_peak_bytes() const { return 0; }

  // Done in the next step, before its gradient is summed.
  HostWork& host_work() { return host_work_; }

  // A step: begin, accumulate for each micro-batch, finish, update.
  virtual void begin(float lr) = 0;  // step state.optimizer_steps
  // gradient += scale * d(mean loss). After the `last` it is final.
  virtual void accumulate(const Batch& batch, const DropoutKey& dropout, float scale,
                          bool last) = 0;
  struct Summed {
    float loss = 0;          // this rank's sum of scale * mean loss
    double in_region_s = 0;  // that the step waited for sums over the ranks
  };
  // Sums the gradient over the ranks.
  virtual Summed finish() = 0;
  // Clips, and steps unless the gradient's global norm, which it returns, is not finite.
  virtual double update() = 0;

  // Mean loss without dropout. Before the first with these params, and before the next step after
  // it, params_changed() must be called.
  virtual float evaluate(const Batch& batch, std::span<const float> params) = 0;

 private:
  HostWork host_work_;
};

// `options` outlive the stepper.
std::unique_ptr<Stepper> make_cpu_stepper(const WorkerOptions& options);

}  // namespace causeway::intra
