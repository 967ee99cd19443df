#include "apps/run/learning/trial.h"

#include <algorithm>
#include <cassert>
#include <exception>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "diloco/files/file_io.h"
#include "diloco/maths/digest.h"
#include "diloco/pacing/weights.h"
#include "intra/model/model.h"
#include "intra/outer/outer_round.h"
#include "intra/step/training_state.h"
#include "intra/worker/make_inner_trainer.h"
#include "intra/worker/run_worker.h"

namespace causeway::run {
namespace {

constexpr double kMissProbability = 0.5;

class Region {
 public:
  Region(const Config& config, const std::string& name, bool feedback)
      : options_(worker_options(config, name, 0, {})),
        layout_(intra::parameter_tensors(options_.model)),
        state_(options_.inner, layout_),
        group_(intra::make_solo_collective()),
        trainer_(intra::make_inner_trainer(options_)),
        round_({.region = name,
                .region_index = static_cast<std::uint32_t>(options_.region_index),
                .rank = 0,
                .world = 1,
                .seed = options_.train.seed},
               with(options_.codec, feedback), options_.outer, options_.overlap, layout_),
        ahead_(protocol_options(config, name).overlap_steps) {
    intra::initial_weights(options_, layout_, state_.params);
    state_.anchor = state_.params;
    state_.digest = intra::whole_digest(state_);
    trainer_->join(*group_, state_);
  }

  const std::string& name() const { return options_.region; }
  const intra::OuterState& state() const { return state_; }

  // The round's steps, less those that were taken ahead.
  intra::InFlight contribute(std::uint32_t steps) {
    if (state_.work.steps == 0) state_.work.data_cursor = state_.steps * batch().samples;
    step_until(steps);
    trainer_->settle(intra::Settle::params);
    round_.encode(*group_, batch(), state_);
    trainer_->params_changed();
    return state_.in_flight.back();
  }

  // Steps while the round is decided.
  void go_ahead(std::uint32_t steps) {
    step_until(std::min(steps, ahead_));
    trainer_->settle(intra::Settle::params);
  }

  void apply(const diloco::CommitRecord& record,
             std::span<const std::span<const std::byte>> payloads) {
    round_.apply(*group_, record, payloads, state_);
    trainer_->params_changed();
  }

  double loss() { return trainer_->evaluate(state_.anchor, options_.train.validation_sequences); }

 private:
  void step_until(std::uint32_t steps) {
    while (state_.work.steps < steps) {
      trainer_->step({state_.steps, state_.work.data_cursor + state_.work.steps * batch().samples},
                     false);
      ++state_.work.steps;
      ++state_.steps;
    }
  }
  static intra::CodecOptions with(intra::CodecOptions codec, bool feedback) {
    codec.feedback = feedback;
    return codec;
  }
  intra::OuterRound::Batch batch() const {
    const auto samples = static_cast<std::uint64_t>(options_.train.batch);
    return {samples, samples * static_cast<std::uint64_t>(options_.model.context)};
  }

  intra::WorkerOptions options_;
  diloco::Layout layout_;
  intra::TrainingState state_;
  std::unique_ptr<intra::Collective> group_;
  std::unique_ptr<intra::InnerTrainer> trainer_;
  intra::OuterRound round_;
  std::uint32_t ahead_;  // at most, as the overlap variant has it
};

class Rounds {
 public:
  Rounds(const Config& config, Missing missing)
      : missing_(missing),
        pace_(pace(config)),
        outer_momentum_(config.outer.momentum),
        chance_(config.train.seed) {
    const bool feedback = missing != Missing::dropped && config.codec.feedback;
    for (const std::string& name : names_of(config))
      regions_.push_back(std::make_unique<Region>(config, name, feedback));
    liveness_.assign(regions_.size(), 1.0);
  }

  TrialResult train() {
    for (diloco::Round t = 0; t < pace_.rounds(); ++t) one_round(t);
    for (const auto& region : regions_) assert(region->state().digest == first().digest);
    return {.loss = regions_.front()->loss(),
            .missed = double(missed_) / double(pace_.rounds() * regions_.size()),
            .payload_bytes = payload_bytes_,
            .rounds = pace_.rounds(),
            .digest = diloco::to_hex(diloco::merkle_root(diloco::merkle_leaves(first().anchor)))};
  }

 private:
  const intra::OuterState& first() const { return regions_.front()->state(); }

  std::vector<bool> draw() {
    std::vector<bool> misses(regions_.size());
    std::bernoulli_distribution miss(missing_ == Missing::never ? 0 : kMissProbability);
    for (std::size_t i = 0; i < misses.size(); ++i) misses[i] = miss(chance_);
    if (std::ranges::find(misses, false) == misses.end()) misses[chance_() % misses.size()] = false;
    missed_ += static_cast<std::uint64_t>(std::ranges::count(misses, true));
    return misses;
  }

  void one_round(diloco::Round t) {
    const std::uint32_t steps = pace_.round_steps(steps_before_.back());
    steps_before_.push_back(steps_before_.back() + steps);
    const std::vector<bool> misses = draw();
    std::vector<intra::InFlight> listed = std::exchange(late_, {});
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      intra::InFlight made = regions_[i]->contribute(steps);
      payload_bytes_ += made.payload.bytes().size();
      if (!misses[i]) {
        listed.push_back(std::move(made));
      } else if (missing_ == Missing::late) {
        late_.push_back(std::move(made));
      }
    }
    for (const auto& region : regions_) region->go_ahead(pace_.round_steps(steps_before_.back()));
    std::ranges::sort(listed, {}, [](const auto& one) { return key_of(one.contribution); });
    commit(t, listed);
    for (std::size_t i = 0; i < regions_.size(); ++i)
      liveness_[i] = diloco::liveness_after(liveness_[i], !misses[i]);
  }

  void commit(diloco::Round t, std::span<const intra::InFlight> listed) {
    const diloco::Weights weights = weigh(t, listed);
    diloco::CommitRecord record;
    record.round = t;
    record.state = first().digest;
    record.expired_before = missing_ == Missing::late ? t : t + 1;
    record.skip_momentum = weights.skip_momentum;
    record.momentum = diloco::momentum_after(steps_since_exchange(t), pace_.k, outer_momentum_);
    std::vector<std::span<const std::byte>> payloads;
    for (std::size_t i = 0; i < listed.size(); ++i) {
      record.participants.push_back(
          diloco::participant_of(listed[i].identified(), weights.values[i]));
      payloads.push_back(listed[i].payload.bytes());
    }
    for (const auto& region : regions_) region->apply(record, payloads);
  }

  std::uint64_t steps_since_exchange(diloco::Round t) const {
    return steps_before_[t + 1] -
           steps_before_[t + 1 - std::min<diloco::Round>(t + 1, pace_.fragments)];
  }

  diloco::Weights weigh(diloco::Round t, std::span<const intra::InFlight> listed) const {
    std::vector<diloco::Offer> offers;
    for (const intra::InFlight& one : listed) {
      const auto region = std::ranges::find(regions_, one.contribution.region,
                                            [](const auto& each) { return each->name(); });
      const double liveness = liveness_[static_cast<std::size_t>(region - regions_.begin())];
      offers.push_back({.contribution = one.contribution,
                        .liveness = diloco::liveness_as_weight(liveness),
                        .staleness = t - one.contribution.round});
    }
    return diloco::weigh(offers, regions_.size());
  }

  Missing missing_;
  diloco::Pace pace_;
  float outer_momentum_;
  std::vector<std::uint64_t> steps_before_{0};  // each round, and the next
  std::mt19937_64 chance_;
  std::vector<std::unique_ptr<Region>> regions_;
  std::vector<double> liveness_;       // of the regions
  std::vector<intra::InFlight> late_;  // missed the last round
  std::uint64_t missed_ = 0, payload_bytes_ = 0;
};

// A directory of its own, gone when this is.
class TemporaryDirectory {
 public:
  TemporaryDirectory()
      : path_(std::filesystem::temp_directory_path() / ("causeway-" + diloco::random_name())) {
    diloco::create_private_directories(path_);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

Config with_one_worker_each(Config config) {
  for (RegionConfig& region : config.regions) region.workers = 1;
  return config;
}

}  // namespace

TrialResult train_in_rounds(const Config& config, Missing missing) {
  using Variant = diloco::OverlapOptions::Variant;
  if (missing != Missing::never && config.overlap.variant != Variant::synchronous)
    throw ConfigError(
        "sync.variant: must be synchronous in a trial in which contributions miss rounds");
  return Rounds(with_one_worker_each(config), missing).train();
}

TrialResult train_in_lockstep(const Config& configured) {
  const Config config = with_one_worker_each(configured);
  const TemporaryDirectory directory;
  const std::vector<std::string> names = names_of(config);
  std::vector<intra::WorkerResult> results(names.size());
  std::vector<std::exception_ptr> failures(names.size());
  {
    std::vector<std::jthread> ranks;
    for (std::size_t i = 0; i < names.size(); ++i) {
      ranks.emplace_back([&, i] {
        try {
          intra::WorkerOptions options =
              worker_options(config, names[i], 0, directory.path() / names[i]);
          options.synchronous = {.rank = i, .world = names.size(), .generation = "trial"};
          results[i] = intra::run_synchronous(options, [] { return false; });
        } catch (...) {
          failures[i] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  TrialResult result;
  result.loss = results.front().val_loss().value();
  result.digest = results.front().params_digest;
  return result;
}

}  // namespace causeway::run
