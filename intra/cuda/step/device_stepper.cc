#include "intra/cuda/step/device_stepper.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <vector>

#include "intra/base/resources.h"
#include "intra/collective/collective.h"
#include "intra/collective/gradient_reducer.h"
#include "intra/cuda/step/device_bf16_sums.h"
#include "intra/cuda/step/device_optimizer.h"
#include "intra/cuda/step/device_spans.h"
#include "intra/cuda/step/device_transformer.h"
#include "intra/step/muon.h"

namespace causeway::intra::cuda {
namespace {

class HostSums final : public ForwardingCollective {
 public:
  HostSums(Collective& hosts, Queue& queue) : ForwardingCollective(hosts), queue_(queue) {}

  void all_reduce_sum(std::span<float> values) override {
    there_and_back(values, [&](std::span<float> here) { group().all_reduce_sum(here); });
  }
  void reduce_scatter_sum(std::span<float> values, std::span<const std::size_t> counts) override {
    there_and_back(values,
                   [&](std::span<float> here) { group().reduce_scatter_sum(here, counts); });
  }
  void all_gather_parts(std::span<float> values, std::span<const std::size_t> counts) override {
    there_and_back(values, [&](std::span<float> here) { group().all_gather_parts(here, counts); });
  }
  void exchange_parts(std::span<const float> values, std::span<const std::size_t> counts,
                      std::span<float> received) override {
    here_.resize(values.size() + received.size());
    const std::span<float> sent = std::span(here_).first(values.size());
    const std::span<float> came = std::span(here_).last(received.size());
    queue_.download(values.data(), sent.data(), sent.size_bytes());
    group().exchange_parts(sent, counts, came);
    queue_.upload(came.data(), received.data(), received.size_bytes());
  }

 private:
  template <typename Operation>
  void there_and_back(std::span<float> values, const Operation& operation) {
    here_.resize(values.size());
    queue_.download(values.data(), here_.data(), values.size_bytes());
    operation(std::span(here_));
    queue_.upload(here_.data(), values.data(), values.size_bytes());
  }

  Queue& queue_;
  std::vector<float> here_;
};

}  // namespace

std::unique_ptr<Collective> make_host_sums(Collective& hosts, Queue& queue) {
  return std::make_unique<HostSums>(hosts, queue);
}

namespace {

class DeviceStepper final : public Stepper {
 public:
  DeviceStepper(const WorkerOptions& options, std::unique_ptr<Backend> backend)
      : options_(options),
        micro_batch_(micro_batch_of(options)),
        backend_(std::move(backend)),
        layout_(parameter_tensors(options.model)),
        buckets_(layout_, options.train.bucket_bytes, muon_elements(options.inner, layout_)),
        params_(*backend_, layout_.size(), slack(options.model)),
        gradients_(*backend_, layout_.size(), slack(options.model)),
        result_(reinterpret_cast<StepResult*>(backend_->allocate(sizeof(StepResult)))),
        decoder_(make_device_transformer({options.model, micro_batch_, options.train.recompute},
                                         layout_, spans(), result_, *backend_)),
        optimizer_(options, layout_, buckets_, spans(), decoder_->weights(), result_, *backend_),
        beside_(has_rounds_beside_steps() ? backend_->beside() : nullptr),
        outer_(layout_, *backend_, outer_queue(), params_, outer_scratch(),
               options.train.offload_outer_state) {}

  void join(Collective& group, TrainingState& state) override {
    state_ = &state;
    if (group.size() > 1) join_ranks(group);
    params_.changed_on_host();
    optimizer_.moments_changed();
    outer_.join(state, outer_sums_ ? outer_sums_.get() : group_.get());
  }

  void leave() override {
    reducer_.reset();
    bf16_sums_.reset();
    settle_here(Settle::all);
    optimizer_.leave();
    share_.reset();
    group_.reset();
    outer_sums_.reset();
    state_ = nullptr;
  }

  std::string device() const override { return backend_->device(); }
  std::uint64_t device_memory_peak_bytes() const override { return backend_->memory_peak_bytes(); }
  OuterSpans* outer_spans() override { return &outer_; }
  void params_changed() override { params_.changed_on_host(); }
  void moments_changed() override { optimizer_.moments_changed(); }

  void settle(Settle what) override {
    settle_here(what);
    if (share_ && what == Settle::all) share_->gather();
  }

  void begin(float lr) override {
    assert(state_);
    if (reducer_ && host_work().waits()) reducer_->hold();
    const bool loaded = params_.load(state_->params);
    if (outer_.take_params_changed() || loaded) decoder_->params_changed();
    if (share_) host_work().await_update();  // it drops moments of the state
    optimizer_.begin(*state_, lr);
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

  // A rank that is alone waits once in a step, for what it came to.
  Summed finish() override {
    const auto there = backend_->point();
    if (!reducer_) optimizer_.measure();
    const bool worked = work_beside(*there);
    double left_s = 0, in_region_s = 0;
    if (reducer_) {
      left_s = seconds_of([&] { there->wait(); });
      in_region_s = seconds_of([this] { reducer_->finish(); });  // by which it outlasted our part
      optimizer_.measure();
    }
    left_s += seconds_of([this] { backend_->download(result_, &came_to_, sizeof came_to_); });
    if (!worked) device_s_ = left_s;
    return {static_cast<float>(came_to_.loss), in_region_s};
  }

  double update() override {
    if (came_to_.clip == 0) return came_to_.norm;
    params_.changed_on_device();
    optimizer_.step();
    return came_to_.norm;
  }

  float evaluate(const Batch& batch, std::span<const float> params) override {
    if (params_.load(params)) decoder_->params_changed();
    double mean = 0;
    in_parts(batch, [&](const Batch& part, std::int64_t) {
      mean += static_cast<double>(fraction(part, batch)) * decoder_->evaluate(part);
    });
    return static_cast<float>(mean);
  }

 private:
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

  bool has_rounds_beside_steps() const {
    return options_.overlap.encodes_beside_steps() && !options_.synchronous;
  }
  Queue& outer_queue() { return beside_ ? *beside_ : *backend_; }
  std::span<float> outer_scratch() {
    if (!beside_) return gradients_.device();
    return delta_.emplace(*backend_, *beside_, layout_.size()).device();
  }

  TrainingSpans spans() const { return {params_.device(), gradients_.device()}; }

  void settle_here(Settle what) {
    if (state_ == nullptr) return;  // leave() did
    params_.settle(state_->params);
    if (what == Settle::params) return;
    optimizer_.settle(state_->optimizer);
    outer_.settle();
  }

  void join_ranks(Collective& hosts) {
    using Result = GradientReducer::Result;
    // The baseline's ranks are in different regions.
    if (!options_.synchronous) group_ = backend_->group(hosts, options_.train.rank_deadline);
    Collective* const on_device = group_.get();
    if (!group_) {
      group_ = make_host_sums(hosts, *backend_);
      outer_sums_ = make_host_sums(hosts, outer_queue());
    }
    if (options_.train.shard_optimizer) share_.emplace(buckets_, hosts, *state_);
    optimizer_.join(share_ ? &*share_ : nullptr, group_.get());
    const Result result = share_ ? Result::own_parts : Result::everywhere;
    if (options_.sums_in_bf16(hosts.size())) {
      bf16_sums_ = make_device_bf16_sums(on_device, hosts, *backend_,
                                         bf16_room(buckets_, result, hosts.rank(), hosts.size()));
    }
    reducer_.emplace(bf16_sums_ ? *bf16_sums_ : *group_, buckets_, gradients_.device(), result,
                     [this] { return [point = backend_->point()] { point->wait(); }; });
  }

  // What the host has to do until the device is `there`, with its gradient: that holds the step up
  // by how much longer it takes than the device does, as it did in the last step without. False:
  // nothing.
  bool work_beside(const Point& there) {
    if (!host_work().waits()) return false;
    const double seconds = host_work().run();
    if (there.reached()) host_work().held_up(std::max(0.0, seconds - device_s_));
    if (reducer_) reducer_->resume();
    return true;
  }

  const WorkerOptions& options_;
  std::int64_t micro_batch_;
  std::unique_ptr<Backend> backend_;
  diloco::Layout layout_;
  const GradientBuckets buckets_;
  Mirror params_, gradients_;
  StepResult* result_;
  std::unique_ptr<DeviceTransformer> decoder_;
  DeviceOptimizer optimizer_;
  std::unique_ptr<Queue> beside_;  // the rounds', if they overlap with steps
  std::optional<Mirror> delta_;    // their scratch then
  DeviceSpans outer_;
  double device_s_ = 0;  // that the last step without one took, from when it was asked for
  StepResult came_to_;
  TrainingState* state_ = nullptr;
  // Null, as the reducer: this rank is alone. The rounds' own: if they meet on the host.
  std::unique_ptr<Collective> group_, outer_sums_;
  std::unique_ptr<Collective> bf16_sums_;  // the buckets', if they are in bf16
  std::optional<OptimizerShare> share_;    // if the optimizer's state is shared out
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
