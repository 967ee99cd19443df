#include "intra/inner_trainer.h"

#include <array>
#include <cassert>
#include <cmath>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "intra/data.h"
#include "intra/error.h"
#include "intra/evaluation.h"
#include "intra/gradient_reducer.h"
#include "intra/model/initialise.h"
#include "intra/optimizer.h"
#include "intra/timed_trainer.h"

namespace causeway::intra {
namespace {

// How the batch of one region's step divides: over its ranks, and on each rank over micro-batches.
struct Share {
  explicit Share(const WorkerOptions& options)
      : sequences(options.train.batch / options.world),
        micro(sequences / options.train.micro_batches),
        first(sequences * options.rank) {}
  std::int64_t sequences;  // of this rank
  std::int64_t micro;      // of one micro-batch
  std::int64_t first;      // of this rank, within the region's batch
};

void check_batch(const WorkerOptions& options) {
  const auto& train = options.train;
  const std::int64_t parts = std::int64_t{options.world} * train.micro_batches;
  if (parts > 0 && train.batch > 0 && train.batch % parts == 0) return;
  throw std::system_error(
      Errc::bad_model, "train.batch = " + std::to_string(train.batch) + " does not divide into " +
                           std::to_string(options.world) + " workers x " +
                           std::to_string(train.micro_batches) +
                           " micro-batches; choose a multiple of " + std::to_string(parts));
}

// Regions draw different dropout masks; the odd constant spreads neighbouring indices over the
// seed's bits.
std::uint64_t dropout_seed(const WorkerOptions& options) {
  return options.train.seed ^ (0x9E3779B97F4A7C15ULL * (options.region_index + 1));
}

class ModelTrainer : public InnerTrainer {
 public:
  explicit ModelTrainer(const WorkerOptions& options)
      : options_(options),
        share_(options),
        model_(make_model(options.model)),
        dataset_(options.data),
        sampler_(dataset_, options.model.context, options.train.seed, options.region_index,
                 options.region_count),
        tokens_(static_cast<std::size_t>(share_.micro * options.model.context)),
        targets_(tokens_.size()) {
    check_validation(dataset_, options.model.context);
  }

  void join(Collective& group, TrainingState& state) override {
    group_ = &group;
    state_ = &state;
    reducer_.emplace(group, model_->layout(), state.scratch, options_.train.bucket_bytes);
    model_->params_changed();
  }

  void leave() override {
    reducer_.reset();
    group_ = nullptr;
    state_ = nullptr;
  }

  StepOutcome step(const InnerStep& step, bool stop_requested) override {
    assert(group_);
    if (step.share.count > 0) sampler_.set_share(step.share);
    const float own_loss = backward(step);
    reducer_->finish();
    std::array<float, 2> agreed{own_loss, stop_requested ? 1.0F : 0.0F};
    group_->all_reduce_sum(agreed);
    update(step, agreed[0]);
    return {agreed[0], agreed[1] > 0};
  }

  void params_changed() override { model_->params_changed(); }

  double evaluate(std::span<const float> params) override {
    model_->params_changed();
    const double loss =
        validation_loss(*model_, params, dataset_, options_.train.validation_sequences, *group_);
    model_->params_changed();
    return loss;
  }

 private:
  // This rank's part of the gradient, summed over the ranks while it is made. Returns its part of
  // the loss.
  float backward(const InnerStep& step) {
    std::fill(state_->scratch.begin(), state_->scratch.end(), 0.0F);
    const std::size_t replicas = options_.synchronous ? options_.region_count : 1;
    const float scale =
        static_cast<float>(share_.micro) /
        static_cast<float>(options_.train.batch * static_cast<std::int64_t>(replicas));
    float loss = 0;
    for (std::uint32_t micro = 0; micro < options_.train.micro_batches; ++micro) {
      const std::int64_t first = share_.first + micro * share_.micro;
      read_samples(step.cursor + static_cast<std::uint64_t>(first));
      const DropoutKey dropout{dropout_seed(options_), step.index,
                               static_cast<std::uint64_t>(first)};
      // Only the last micro-batch makes gradients final.
      const bool last = micro + 1 == options_.train.micro_batches;
      loss += scale * model_->train({tokens_, targets_, share_.micro, options_.model.context},
                                    dropout, scale, state_->params, state_->scratch,
                                    last ? ready_ : Model::GradientReady());
    }
    return loss;
  }

  void read_samples(std::uint64_t first) {
    const auto length = static_cast<std::size_t>(options_.model.context);
    for (std::size_t i = 0; i < static_cast<std::size_t>(share_.micro); ++i) {
      sampler_.read(first + i, std::span(tokens_).subspan(i * length, length),
                    std::span(targets_).subspan(i * length, length));
    }
  }

  void update(const InnerStep& step, float loss) {
    const double norm = global_norm(state_->scratch);
    if (!std::isfinite(loss) || !std::isfinite(norm)) {
      throw std::system_error(Errc::not_finite,
                              "at inner step " + std::to_string(step.index) + ": loss " +
                                  std::to_string(loss) + ", gradient norm " + std::to_string(norm) +
                                  "; lower inner.lr, raise inner.warmup_steps, or "
                                  "clip harder with inner.clip_norm");
    }
    const float clip = options_.inner.clip_norm;
    const float factor = clip > 0 && norm > clip ? static_cast<float>(clip / norm) : 1.0F;
    const float lr = learning_rate(options_.inner, step.index, options_.train.steps);
    state_->optimizer.step(state_->optimizer_steps++, lr, factor, state_->params, state_->scratch);
    model_->params_changed();
  }

  const WorkerOptions& options_;
  Share share_;
  std::unique_ptr<Model> model_;
  Dataset dataset_;
  Sampler sampler_;
  std::vector<std::int32_t> tokens_, targets_;  // one micro-batch
  Collective* group_ = nullptr;
  TrainingState* state_ = nullptr;
  std::optional<GradientReducer> reducer_;
  const Model::GradientReady ready_ = [this](std::size_t offset, std::size_t count) {
    reducer_->ready(offset, count);
  };
};

}  // namespace

void initial_weights(const WorkerOptions& options, const diloco::Layout& layout,
                     std::span<float> params) {
  if (options.origin.model.empty()) {
    initialise_parameters(options.model, layout, options.train.seed, params);
  } else {
    read_weights(options.origin.model, options.model, layout, params);
  }
}

std::unique_ptr<InnerTrainer> make_inner_trainer(const WorkerOptions& options) {
  check_batch(options);
  if (options.train.timed_step_ms > 0) return make_timed_trainer(options);
  return std::make_unique<ModelTrainer>(options);
}

}  // namespace causeway::intra
