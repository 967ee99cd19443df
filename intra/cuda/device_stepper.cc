#include "intra/cuda/device_stepper.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <optional>

#include "intra/cuda/decoder.h"
#include "intra/cuda/host_sums.h"
#include "intra/flat_parts.h"
#include "intra/gradient_reducer.h"

namespace causeway::intra::cuda {
namespace {

// One flat span on the device, and the state's copy of it.
class Mirror {
 public:
  Mirror(Backend& backend, std::size_t count, std::size_t slack_count)
      : backend_(backend),
        device_(reinterpret_cast<float*>(backend.allocate((count + slack_count) * sizeof(float))),
                count) {}

  std::span<float> device() const { return device_; }

  // The device's copy becomes that of `host`, unless it is already. True if it was copied.
  bool load(std::span<const float> host) {
    if (loaded_ == host.data()) return false;
    backend_.upload(host.data(), device_.data(), device_.size_bytes());
    loaded_ = host.data();
    return true;
  }
  void changed_on_device() { ahead_ = true; }
  void changed_on_host() {
    loaded_ = nullptr;
    ahead_ = false;
  }
  void settle(std::span<float> host) {
    if (!ahead_) return;
    backend_.download(device_.data(), host.data(), device_.size_bytes());
    ahead_ = false;
  }

 private:
  Backend& backend_;
  std::span<float> device_;
  const float* loaded_ = nullptr;  // which host span the device holds
  bool ahead_ = false;             // steps were taken since
};

class DeviceStepper final : public Stepper {
 public:
  DeviceStepper(const WorkerOptions& options, std::unique_ptr<Backend> backend)
      : options_(options),
        micro_batch_(micro_batch_of(options)),
        backend_(std::move(backend)),
        layout_(parameter_tensors(options.model)),
        params_(mirror()),
        first_moment_(mirror()),
        second_moment_(mirror()),
        gradients_(mirror()),
        update_(take<UpdateScalars>(1)),
        result_(take<StepResult>(1)),
        partials_(take<double>(static_cast<std::size_t>(norm_blocks()))) {
    const DecoderOptions decoder{options.model, micro_batch_, options.train.recompute};
    decoder_ = make_decoder(
        decoder, layout_,
        {params_.device(), gradients_.device(), first_moment_.device(), second_moment_.device()},
        result_, *backend_);
  }

  void join(Collective& group, TrainingState& state) override {
    state_ = &state;
    if (group.size() > 1) {
      group_ = group_for(group);
      reducer_.emplace(*group_, GradientBuckets(layout_, options_.train.bucket_bytes),
                       gradients_.device(), GradientReducer::Result::everywhere,
                       [this] { return backend_->point(); });
    }
    params_.changed_on_host();
    moments_changed();
  }

  void leave() override {
    reducer_.reset();
    group_.reset();
    settle(Settle::all);
    state_ = nullptr;
  }

  std::string device() const override { return backend_->device(); }
  void params_changed() override { params_.changed_on_host(); }
  void moments_changed() override {
    first_moment_.changed_on_host();
    second_moment_.changed_on_host();
  }

  void settle(Settle what) override {
    if (state_ == nullptr) return;  // leave() did
    params_.settle(state_->params);
    if (what == Settle::params) return;
    first_moment_.settle(state_->optimizer.first_moment());
    second_moment_.settle(state_->optimizer.second_moment());
  }

  void begin(float lr) override {
    assert(state_);
    if (params_.load(state_->params)) decoder_->params_changed();
    first_moment_.load(state_->optimizer.first_moment());
    second_moment_.load(state_->optimizer.second_moment());
    const UpdateScalars update{
        .factors = adamw_factors(options_.inner, state_->optimizer_steps, lr),
        .clip_norm = options_.inner.clip_norm,
        .rounding_key =
            philox_key(mix_bits(options_.train.seed + mix_bits(state_->optimizer_steps)))};
    backend_->upload(&update, update_, sizeof update);
    backend_->clear(gradients_.device().data(), gradients_.device().size_bytes());
    backend_->clear(result_, sizeof(StepResult));
  }

  void accumulate(const Batch& batch, const DropoutKey& dropout, float scale, bool last) override {
    in_parts(batch, [&](const Batch& part, std::int64_t first) {
      DropoutKey own = dropout;
      own.first_sample += static_cast<std::uint64_t>(first);
      const bool ends = last && first + part.batch == batch.batch;
      decoder_->train(part, own, scale * fraction(part, batch),
                      ends && reducer_ ? ready_ : Model::GradientReady());
    });
  }

  // The update is asked for here, and takes its norm from the device: there is one wait in a step,
  // for what it came to.
  Summed finish() override {
    const double in_region_s = sum_over_ranks();
    backend_->repeat(kUpdateName, [this] { ask_for_update(); });
    backend_->download(result_, &came_to_, sizeof came_to_);
    if (came_to_.clip > 0) {
      for (Mirror* mirror : {&params_, &first_moment_, &second_moment_}) {
        mirror->changed_on_device();
      }
    }
    return {static_cast<float>(came_to_.loss), in_region_s};
  }

  double update() override { return came_to_.norm; }

  float evaluate(const Batch& batch, std::span<const float> params) override {
    if (params_.load(params)) decoder_->params_changed();
    double mean = 0;
    in_parts(batch, [&](const Batch& part, std::int64_t) {
      mean += static_cast<double>(fraction(part, batch)) * decoder_->evaluate(part);
    });
    return static_cast<float>(mean);
  }

 private:
  static constexpr std::uint64_t kUpdateName = ~std::uint64_t{0};

  static std::int64_t micro_batch_of(const WorkerOptions& options) {
    const std::int64_t parts = std::int64_t{options.world} * options.train.micro_batches;
    return std::max<std::int64_t>(1, options.train.batch / parts);
  }
  // work(part, number of its first sequence): as many sequences at a time as there is room for.
  template <typename Work>
  void in_parts(const Batch& batch, const Work& work) const {
    for (std::int64_t first = 0; first < batch.batch; first += micro_batch_) {
      const std::int64_t count = std::min(micro_batch_, batch.batch - first);
      const auto at = static_cast<std::size_t>(first * batch.length);
      const auto size = static_cast<std::size_t>(count * batch.length);
      work(Batch{batch.tokens.subspan(at, size), batch.targets.subspan(at, size), count,
                 batch.length},
           first);
    }
  }
  static float fraction(const Batch& part, const Batch& whole) {
    return static_cast<float>(part.batch) / static_cast<float>(whole.batch);
  }

  Mirror mirror() const { return {*backend_, layout_.size(), slack(options_.model)}; }
  template <typename T>
  T* take(std::size_t count) const {
    return reinterpret_cast<T*>(backend_->allocate(count * sizeof(T)));
  }
  std::int64_t packs() const { return static_cast<std::int64_t>(layout_.size() / kPack); }
  std::int64_t norm_blocks() const {
    return (packs() + SquareSums::kBlockPacks - 1) / SquareSums::kBlockPacks;
  }
  static Pack<float>* packs_of(const Mirror& mirror) {
    return reinterpret_cast<Pack<float>*>(mirror.device().data());
  }

  // The baseline's ranks are in different regions.
  std::unique_ptr<Collective> group_for(Collective& hosts) {
    std::unique_ptr<Collective> own;
    if (!options_.synchronous) own = backend_->group(hosts, options_.train.rank_deadline);
    return own ? std::move(own) : make_host_sums(hosts, *backend_);
  }

  // Returns the seconds by which it outlasted this rank's own part.
  double sum_over_ranks() {
    if (!reducer_) return 0;
    backend_->point()();
    const auto began = std::chrono::steady_clock::now();
    reducer_->finish();
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
    return waited.count();
  }

  void ask_for_update() {
    backend_->run(SquareSums{norm_blocks(), packs(), packs_of(gradients_), partials_});
    backend_->run(Clip{norm_blocks(), partials_, update_, result_});
    if (decoder_->weights() == nullptr) {
      backend_->run(step_job<float>(nullptr));
    } else {
      backend_->run(step_job(reinterpret_cast<Pack<Bfloat16>*>(decoder_->weights())));
    }
  }

  template <typename T>
  AdamWStep<T> step_job(Pack<T>* weights) const {
    return {.packs = packs(),
            .matrix_packs = static_cast<std::int64_t>(matrices_end(layout_) / kPack),
            .update = update_,
            .result = result_,
            .gradients = packs_of(gradients_),
            .params = packs_of(params_),
            .first_moment = packs_of(first_moment_),
            .second_moment = packs_of(second_moment_),
            .weights = weights,
            .stochastic = options_.train.stochastic_rounding};
  }

  const WorkerOptions& options_;
  std::int64_t micro_batch_;
  std::unique_ptr<Backend> backend_;
  diloco::Layout layout_;
  Mirror params_, first_moment_, second_moment_, gradients_;
  UpdateScalars* update_;
  StepResult* result_;
  double* partials_;
  std::unique_ptr<Decoder> decoder_;
  StepResult came_to_;
  TrainingState* state_ = nullptr;
  std::unique_ptr<Collective> group_;  // null, as the reducer: this rank is alone
  std::optional<GradientReducer> reducer_;
  const Model::GradientReady ready_ = [this](std::size_t offset, std::size_t count) {
    reducer_->ready(offset, count);
  };
};

}  // namespace

std::unique_ptr<Stepper> make_device_stepper(const WorkerOptions& options,
                                             std::unique_ptr<Backend> backend) {
  return std::make_unique<DeviceStepper>(options, std::move(backend));
}

}  // namespace causeway::intra::cuda
