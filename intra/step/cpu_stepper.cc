#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <utility>

#include "intra/base/global_norm.h"
#include "intra/base/resources.h"
#include "intra/collective/bf16_sums.h"
#include "intra/collective/gradient_reducer.h"
#include "intra/step/muon.h"
#include "intra/step/optimizer_share.h"
#include "intra/step/stepper.h"

namespace causeway::intra {
namespace {

class CpuStepper final : public Stepper {
 public:
  explicit CpuStepper(const WorkerOptions& options)
      : options_(options),
        model_(make_model(options.model)),
        muon_(options.inner, model_->layout(), choose_products(options.model.precision)),
        buckets_(model_->layout(), options.train.bucket_bytes,
                 muon_elements(options.inner, model_->layout())) {}

  void join(Collective& group, TrainingState& state) override {
    group_ = &group;
    state_ = &state;
    const bool shared = options_.train.shard_optimizer && group.size() > 1;
    if (shared) share_.emplace(buckets_, group, state);
    using Result = GradientReducer::Result;
    const Result result = shared ? Result::own_parts : Result::everywhere;
    if (options_.sums_in_bf16(group.size())) {
      bf16_sums_ =
          make_host_bf16_sums(group, bf16_room(buckets_, result, group.rank(), group.size()));
    }
    reducer_.emplace(bf16_sums_ ? *bf16_sums_ : group, buckets_, state.scratch, result);
    model_->params_changed();
  }

  void leave() override {
    reducer_.reset();
    bf16_sums_.reset();
    share_.reset();
    group_ = nullptr;
    state_ = nullptr;
  }

  void settle(Settle what) override {
    if (share_ && what == Settle::all) share_->gather();
  }

  void params_changed() override { model_->params_changed(); }
  std::string device() const override { return "CPU"; }

  // Nothing else computes meanwhile.
  void begin(float lr) override {
    assert(state_);
    if (host_work().waits()) {
      host_work().held_up(host_work().run());
      model_->params_changed();  // by it, perhaps
    }
    if (share_) drop_moments_of_others();
    lr_ = lr;
    loss_ = 0;
    nothing_accumulated_ = true;
  }

  void accumulate(const Batch& batch, const DropoutKey& dropout, float scale, bool last) override {
    if (std::exchange(nothing_accumulated_, false)) model_->clear_gradients(state_->scratch);
    // Only the last micro-batch makes gradients final.
    loss_ += scale * model_->train(batch, dropout, scale, state_->params, state_->scratch,
                                   last ? ready_ : Model::GradientReady());
  }

  // A rank may have no part of a small batch.
  Summed finish() override {
    if (nothing_accumulated_) std::ranges::fill(state_->scratch, 0.0F);
    return {loss_, seconds_of([this] { reducer_->finish(); })};
  }

  double update() override {
    const double norm = share_ ? norm_of_parts() : global_norm(state_->scratch);
    if (!std::isfinite(norm)) return norm;
    const float clip = options_.inner.clip_norm;
    const float factor = clip > 0 && norm > clip ? static_cast<float>(clip / norm) : 1.0F;
    host_work().await_update();
    step(factor);
    return norm;
  }

  float evaluate(const Batch& batch, std::span<const float> params) override {
    return model_->evaluate(batch, params);
  }

 private:
  void drop_moments_of_others() {
    host_work().await_update();
    share_->keep();
  }

  void step(float gradient_scale) {
    const bool by_adamw_alone = muon_.matrices().empty() && !share_;
    AdamW::Stepped stepped;
    if (by_adamw_alone) {
      stepped = [this](std::size_t begin, std::size_t end) {
        model_->params_changed(state_->params, begin, end);
      };
    }
    state_->optimizer.step(state_->optimizer_steps, lr_, gradient_scale, state_->params,
                           state_->scratch, stepped);
    if (by_adamw_alone) return;
    if (!muon_.matrices().empty()) step_muon(gradient_scale);
    if (share_) share_->complete_params(*group_, state_->params);
    model_->params_changed();
  }

  // A matrix of Muon's is stepped by one rank and sent to the others: that takes less time than to
  // step all, and replicas stay the same where ranks have different CPUs.
  void step_muon(float gradient_scale) {
    muon_.step(lr_, gradient_scale, buckets_.parts(group_->rank(), group_->size()),
               state_->optimizer, state_->params, state_->scratch);
    if (!share_) share_muon();
  }

  void share_muon() {
    state_->intact = false;  // if a rank is lost meanwhile
    buckets_.complete_undivided(*group_, state_->params);
    state_->intact = true;
  }

  // In another order than global_norm(): it may differ in its last bits.
  double norm_of_parts() {
    double squares = 0;
    for (const Range& part : share_->parts()) {
      const double norm = global_norm(std::span(state_->scratch).subspan(part.begin, part.count()));
      squares += norm * norm;
    }
    return share_->norm(squares);
  }

  const WorkerOptions& options_;
  std::unique_ptr<Model> model_;
  Muon muon_;
  const GradientBuckets buckets_;
  Collective* group_ = nullptr;
  TrainingState* state_ = nullptr;
  std::optional<OptimizerShare> share_;    // if the optimizer's state is shared out
  std::unique_ptr<Collective> bf16_sums_;  // the buckets', if they are in bf16
  std::optional<GradientReducer> reducer_;
  float lr_ = 0, loss_ = 0;
  bool nothing_accumulated_ = true;  // in this step
  const Model::GradientReady ready_ = [this](std::size_t offset, std::size_t count) {
    reducer_->ready(offset, count);
  };
};

}  // namespace

std::unique_ptr<Stepper> make_cpu_stepper(const WorkerOptions& options) {
  return std::make_unique<CpuStepper>(options);
}

}  // namespace causeway::intra
