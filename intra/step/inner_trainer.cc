#include "intra/step/inner_trainer.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "intra/base/adamw.h"
#include "intra/base/error.h"
#include "intra/base/resources.h"
#include "intra/base/splitmix.h"
#include "intra/data/data_reading.h"
#include "intra/data/sampler.h"
#include "intra/model/model.h"
#include "intra/step/evaluation.h"

namespace causeway::intra {
namespace {

// A part of a region's batch: its first sequence, and how many they are.
struct Share {
  std::int64_t first = 0, sequences = 0;

  // Part `index` of `count` of it; the first ones get what does not divide.
  Share part(std::int64_t index, std::int64_t count) const {
    const std::int64_t size = sequences / count, extra = sequences % count;
    return {first + index * size + std::min(index, extra), size + (index < extra ? 1 : 0)};
  }
};

// At full strength all ranks have equal work; a region that lost some still trains on whole
// batches.
// Regions draw different dropout masks; the odd constant spreads neighbouring indices over the
// seed's bits.
std::uint64_t dropout_seed(const WorkerOptions& options, std::size_t region) {
  return options.train.seed ^ (0x9E3779B97F4A7C15ULL * (region + 1));
}

class ModelTrainer : public InnerTrainer {
 public:
  ModelTrainer(const WorkerOptions& options, std::unique_ptr<Stepper> stepper)
      : options_(options),
        stepper_(std::move(stepper)),
        dataset_(options.data),
        samplers_(samplers(options, dataset_)) {
    check_validation(dataset_, options.model.context);
    if (options.data.validation_files.empty()) return;
    common_.emplace(common_validation(options.data));
    check_validation(*common_, options.model.context);
  }

  void join(Collective& group, TrainingState& state) override {
    group_ = &group;
    state_ = &state;
    share_ = share(group);
    stepper_->join(group, state);
  }

  void leave() override {
    stepper_->leave();
    group_ = nullptr;
    state_ = nullptr;
  }

  StepOutcome step(const InnerStep& step, bool stop_requested) override {
    assert(group_);
    if (step.share.count > 0) samplers_.front().set_share(step.share);
    stepper_->begin(learning_rate(options_.inner, step.index, options_.train.steps));
    backward(step);
    const Stepper::Summed own = stepper_->finish();
    std::array<float, 2> agreed{own.loss, stop_requested ? 1.0F : 0.0F};
    const double agreeing_s = seconds_of([&] { group_->all_reduce_sum(agreed); });
    update(step, agreed[0]);
    return {agreed[0], agreed[1] > 0, own.in_region_s + agreeing_s};
  }

  HostWork& host_work() override { return stepper_->host_work(); }
  OuterSpans* outer_spans() override { return stepper_->outer_spans(); }
  void params_changed() override { stepper_->params_changed(); }
  void moments_changed() override { stepper_->moments_changed(); }
  void settle(Settle what) override { stepper_->settle(what); }
  std::string device() const override { return stepper_->device(); }
  std::uint64_t device_memory_peak_bytes() const override {
    return stepper_->device_memory_peak_bytes();
  }

  double evaluate(std::span<const float> params, std::uint64_t sequences) override {
    return evaluate_on(dataset_, params, sequences);
  }

  std::optional<double> evaluate_common(std::span<const float> params,
                                        std::uint64_t sequences) override {
    if (!common_) return std::nullopt;
    return evaluate_on(*common_, params, sequences);
  }

  diloco::DataDigests data() override {
    if (!reading_)
      reading_.emplace(options_.data, dataset_, common_ ? &*common_ : nullptr, options_.directory);
    return reading_->digests();
  }

  void check_data_unchanged() override {
    dataset_.check_unchanged();
    if (common_) common_->check_unchanged();
  }

  void check_data_is_current() const override {
    dataset_.check_is_current();
    if (common_) common_->check_is_current();
  }

 private:
  double evaluate_on(const Dataset& data, std::span<const float> params, std::uint64_t sequences) {
    stepper_->settle(Settle::params);
    stepper_->params_changed();
    const double loss = validation_loss(
        options_.model.context,
        [&](const Batch& batch) { return stepper_->evaluate(batch, params); }, data, sequences,
        *group_);
    stepper_->params_changed();
    return loss;
  }

  static std::vector<Sampler> samplers(const WorkerOptions& options, const Dataset& dataset) {
    const auto sampler = [&](std::size_t index, std::size_t count) {
      return Sampler(dataset, options.model.context, options.train.seed, index, count);
    };
    if (options.data.per_region) return {sampler(0, 1)};
    if (options.regions_computed() == 1)
      return {sampler(options.region_index, options.region_count)};
    std::vector<Sampler> all;
    for (std::size_t index = 0; index < options.region_count; ++index)
      all.push_back(sampler(index, options.region_count));
    return all;
  }

  // The baseline's group is of all regions, the batch is one region's, unless one rank computes
  // all.
  Share share(const Collective& group) const {
    if (options_.computes_for_all())
      return {0, options_.train.batch * static_cast<std::int64_t>(options_.region_count)};
    const bool mixed = options_.synchronous.has_value();
    const auto rank = static_cast<std::int64_t>(mixed ? options_.rank : group.rank());
    const auto world = static_cast<std::int64_t>(mixed ? options_.world : group.size());
    return Share{0, options_.train.batch}.part(rank, world);
  }

  // This rank's part of the gradient. Dropout masks are a region's own, so that a part of which any
  // is dropped is of one region.
  void backward(const InnerStep& step) {
    const std::int64_t of_regions =
        options_.model.dropout > 0 ? static_cast<std::int64_t>(options_.regions_computed()) : 1;
    const std::int64_t parts =
        std::min<std::int64_t>(options_.train.micro_batches * of_regions, share_.sequences);
    for (std::int64_t part = 0; part < parts; ++part) {
      backward(step, share_.part(part, parts), part + 1 == parts);
    }
  }

  // Every sequence of the batch counts alike, whichever rank has how many.
  void backward(const InnerStep& step, const Share& micro, bool last) {
    const std::size_t replicas = options_.synchronous ? options_.region_count : 1;
    const float scale =
        static_cast<float>(micro.sequences) /
        static_cast<float>(options_.train.batch * static_cast<std::int64_t>(replicas));
    read_samples(step.cursor, micro);
    const std::int64_t first = micro.first % options_.train.batch;
    const DropoutKey dropout{dropout_seed(options_, region_of(micro.first)), step.index,
                             static_cast<std::uint64_t>(first)};
    stepper_->accumulate({tokens_, targets_, micro.sequences, options_.model.context}, dropout,
                         scale, last);
  }

  void read_samples(std::uint64_t cursor, const Share& micro) {
    const auto length = static_cast<std::size_t>(options_.model.context);
    const auto count = static_cast<std::size_t>(micro.sequences);
    tokens_.resize(count * length);
    targets_.resize(count * length);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t place = micro.first + static_cast<std::int64_t>(i);
      const std::int64_t batch = options_.train.batch;
      samplers_[static_cast<std::size_t>(place / batch)].read(
          cursor + static_cast<std::uint64_t>(place % batch),
          std::span(tokens_).subspan(i * length, length),
          std::span(targets_).subspan(i * length, length));
    }
  }

  // Whose sequence this one of share_ is.
  std::size_t region_of(std::int64_t sequence) const {
    if (options_.regions_computed() == 1) return options_.region_index;
    return static_cast<std::size_t>(sequence / options_.train.batch);
  }

  void update(const InnerStep& step, float loss) {
    const double norm = std::isfinite(loss) ? stepper_->update() : std::nan("");
    if (!std::isfinite(loss) || !std::isfinite(norm)) {
      throw std::system_error(
          Errc::not_finite,
          fmt::format("at inner step {}: loss {:f}, gradient norm {:f}; lower inner.lr, raise "
                      "inner.warmup_steps, or clip harder with inner.clip_norm",
                      step.index, loss, norm));
    }
    ++state_->optimizer_steps;
  }

  const WorkerOptions& options_;
  std::unique_ptr<Stepper> stepper_;
  Dataset dataset_;
  std::optional<Dataset> common_;  // data.validation_files
  std::optional<DataReading> reading_;
  std::vector<Sampler> samplers_;               // of the regions whose batches it computes
  std::vector<std::int32_t> tokens_, targets_;  // one micro-batch
  Share share_;                                 // this rank's, in its group
  Collective* group_ = nullptr;
  TrainingState* state_ = nullptr;
};

}  // namespace

void check_batch(const WorkerOptions& options) {
  const auto& train = options.train;
  const std::int64_t parts = std::int64_t{options.world} * train.micro_batches;
  if (parts > 0 && train.batch > 0 && train.batch % parts == 0) return;
  throw std::system_error(Errc::bad_model,
                          fmt::format("train.batch = {} does not divide into {} workers x {} "
                                      "micro-batches; choose a multiple of {}",
                                      train.batch, options.world, train.micro_batches, parts));
}

void initial_weights(const WorkerOptions& options, const diloco::Layout& layout,
                     std::span<float> params) {
  if (options.origin.model.empty()) {
    initialise_parameters(options.model, layout, options.train.seed, params);
  } else {
    read_weights(options.origin.model, options.model, layout, params);
  }
}

std::unique_ptr<InnerTrainer> make_model_trainer(const WorkerOptions& options,
                                                 std::unique_ptr<Stepper> stepper) {
  return std::make_unique<ModelTrainer>(options, std::move(stepper));
}

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
    const auto update = end - std::chrono::duration_cast<Clock::duration>(nudge_);
    const double work_s = host_work_.run();
    const std::chrono::duration<double> late = Clock::now() - update;
    host_work_.held_up(std::clamp(late.count(), 0.0, work_s));
    wait_until(update);
    host_work_.await_update();
    nudge_ = std::chrono::duration<double>(seconds_of([&] { nudge(step.index); }));
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
  std::chrono::duration<double> nudge_{};  // that the last one took
  Collective* group_ = nullptr;
  TrainingState* state_ = nullptr;
};

}  // namespace

std::unique_ptr<InnerTrainer> make_timed_trainer(const WorkerOptions& options) {
  return std::make_unique<TimedTrainer>(options);
}

}  // namespace causeway::intra
