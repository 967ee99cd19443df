#include "intra/step/timed_trainer.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <limits>

#include "intra/base/splitmix.h"
#include "intra/model/model.h"

namespace causeway::intra {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kTimedParallelMin = 1 << 16;  // elements

// A signal ends poll() early; the step still lasts its whole time.
void wait_until(Clock::time_point end) {
  for (auto now = Clock::now(); now < end; now = Clock::now()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - now);
    ::poll(nullptr, 0, static_cast<int>(left.count()));
  }
}

std::uint64_t draw(std::uint64_t key) {
  return mix(key + kGolden);
}

class TimedTrainer : public InnerTrainer {
 public:
  explicit TimedTrainer(const WorkerOptions& options)
      : options_(options), layout_(parameter_tensors(options.model)) {}

  void join(Collective& group, TrainingState& state) override {
    group_ = &group;
    state_ = &state;
  }
  void leave() override { group_ = nullptr; }

  StepOutcome step(const InnerStep& step, bool stop_requested) override {
    assert(group_);
    const auto end = Clock::now() + std::chrono::milliseconds(options_.train.timed_step_ms);
    nudge(step.index);
    const double work_s = host_work_.run();
    const std::chrono::duration<double> late = Clock::now() - end;
    host_work_.held_up(std::clamp(late.count(), 0.0, work_s));
    wait_until(end);
    std::array<float, 1> stop{stop_requested ? 1.0F : 0.0F};
    group_->all_reduce_sum(stop);
    return {.loss = 0, .stop = stop[0] > 0};
  }

  HostWork& host_work() override { return host_work_; }
  void params_changed() override {}
  double evaluate(std::span<const float>, std::uint64_t) override {
    return std::numeric_limits<double>::quiet_NaN();
  }

 private:
  // A change of at most 2^-10 per element, the same on every rank. Padding stays zero.
  void nudge(std::uint64_t step) {
    const std::uint64_t key = draw(draw(options_.train.seed + options_.region_index) + step);
    for (const diloco::PlacedTensor& tensor : layout_.tensors()) {
      const std::size_t end = tensor.offset + tensor.spec.count();
#pragma omp parallel for schedule(static) if (end - tensor.offset > kTimedParallelMin)
      for (std::size_t i = tensor.offset; i < end; ++i) {
        const auto signed_bits = static_cast<std::int32_t>(draw(key + i) >> 32);
        state_->params[i] += static_cast<float>(signed_bits) * 0x1p-41F;
      }
    }
  }

  const WorkerOptions& options_;
  diloco::Layout layout_;
  HostWork host_work_;
  Collective* group_ = nullptr;
  TrainingState* state_ = nullptr;
};

}  // namespace

std::unique_ptr<InnerTrainer> make_timed_trainer(const WorkerOptions& options) {
  return std::make_unique<TimedTrainer>(options);
}

}  // namespace causeway::intra
