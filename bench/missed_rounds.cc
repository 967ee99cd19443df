// What it costs in loss when half of the contributions miss their round: dropped, as in DiLoCo's
// published ablation, and what becomes of them here instead.
//
//     bench_missed_rounds CONFIG [KEY=VALUE]...
//
// Prints the validation loss for: all in time; half of them (from a seed) one round late, listed
// with the weight of late ones; half of them back in the residual; half of them dropped. Inner
// steps, codec, weights and outer rounds are the run's own code, all regions in this process: what
// misses a round is decided here and not by a network.
#include <algorithm>
#include <cassert>
#include <cstdio>
#include <exception>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/run/config/config.h"
#include "diloco/pacing/weights.h"
#include "intra/model/model.h"
#include "intra/outer/outer_round.h"
#include "intra/step/training_state.h"
#include "intra/worker/make_inner_trainer.h"

namespace causeway {
namespace {

enum class Missing { never, late, returned, dropped };

constexpr double kMissProbability = 0.5;

class Region {
 public:
  Region(const run::Config& config, const std::string& name, bool feedback)
      : options_(run::worker_options(config, name, 0, {})),
        layout_(intra::parameter_tensors(options_.model)),
        state_(options_.inner, layout_),
        group_(intra::make_solo_collective()),
        trainer_(intra::make_inner_trainer(options_)),
        round_({.region = name,
                .region_index = static_cast<std::uint32_t>(options_.region_index),
                .rank = 0,
                .world = 1,
                .seed = options_.train.seed},
               with(options_.codec, feedback), options_.outer, options_.overlap, layout_) {
    intra::initial_weights(options_, layout_, state_.params);
    state_.anchor = state_.params;
    state_.digest = intra::whole_digest(state_);
    trainer_->join(*group_, state_);
  }

  const std::string& name() const { return options_.region; }
  const intra::OuterState& state() const { return state_; }

  intra::InFlight contribute() {
    state_.work.data_cursor = state_.steps * batch().samples;
    while (state_.work.steps < options_.train.k) {
      trainer_->step({state_.steps, state_.work.data_cursor + state_.work.steps * batch().samples},
                     false);
      ++state_.work.steps;
      ++state_.steps;
    }
    trainer_->settle(intra::Settle::params);
    round_.encode(*group_, batch(), state_);
    return state_.in_flight.back();
  }

  void apply(const diloco::CommitRecord& record,
             std::span<const std::span<const std::byte>> payloads) {
    round_.apply(*group_, record, payloads, state_);
    trainer_->params_changed();
  }

  double loss() { return trainer_->evaluate(state_.anchor, options_.train.validation_sequences); }

 private:
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
};

// A run in which contributions miss their round.
class Run {
 public:
  Run(const run::Config& config, Missing missing)
      : missing_(missing),
        rounds_(config.train.steps / config.train.k),
        chance_(config.train.seed) {
    const bool feedback = missing != Missing::dropped && config.codec.feedback;
    for (const run::RegionConfig& region : config.regions)
      regions_.push_back(std::make_unique<Region>(config, region.name, feedback));
    liveness_.assign(regions_.size(), 1.0);
  }

  double train() {
    for (diloco::Round t = 0; t < rounds_; ++t) one_round(t);
    for (const auto& region : regions_) assert(region->state().digest == first().digest);
    return regions_.front()->loss();
  }

  double missed() const { return double(missed_) / double(rounds_ * regions_.size()); }

 private:
  const intra::OuterState& first() const { return regions_.front()->state(); }

  // Of a round that everyone would miss, one does not: it would not have ended before.
  std::vector<bool> draw() {
    std::vector<bool> misses(regions_.size());
    std::bernoulli_distribution miss(missing_ == Missing::never ? 0 : kMissProbability);
    for (std::size_t i = 0; i < misses.size(); ++i) misses[i] = miss(chance_);
    if (std::ranges::find(misses, false) == misses.end()) misses[chance_() % misses.size()] = false;
    missed_ += static_cast<std::uint64_t>(std::ranges::count(misses, true));
    return misses;
  }

  void one_round(diloco::Round t) {
    const std::vector<bool> misses = draw();
    std::vector<intra::InFlight> listed = std::exchange(late_, {});
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      intra::InFlight made = regions_[i]->contribute();
      if (!misses[i]) {
        listed.push_back(std::move(made));
      } else if (missing_ == Missing::late) {
        late_.push_back(std::move(made));
      }
    }
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
    std::vector<std::span<const std::byte>> payloads;
    for (std::size_t i = 0; i < listed.size(); ++i) {
      record.participants.push_back(
          diloco::participant_of(listed[i].identified(), weights.values[i]));
      payloads.push_back(listed[i].payload.bytes());
    }
    for (const auto& region : regions_) region->apply(record, payloads);
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
  diloco::Round rounds_;
  std::mt19937_64 chance_;
  std::vector<std::unique_ptr<Region>> regions_;
  std::vector<double> liveness_;       // of the regions
  std::vector<intra::InFlight> late_;  // missed the last round
  std::uint64_t missed_ = 0;
};

void compare(const run::Config& config) {
  struct Row {
    Missing missing;
    const char* name;
  };
  constexpr Row kRows[] = {{Missing::never, "all in time"},
                           {Missing::late, "listed a round later"},
                           {Missing::returned, "back in the residual"},
                           {Missing::dropped, "dropped"}};
  double in_time = 0;
  for (const auto& [missing, name] : kRows) {
    Run run(config, missing);
    const double loss = run.train();
    if (missing == Missing::never) in_time = loss;
    std::printf("%-22s %4.1f %% missed: %.4f (%+.2f %%)\n", name, 100 * run.missed(), loss,
                100 * (loss / in_time - 1));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace causeway

int main(int count, char** words) {
  if (count < 2) {
    std::fprintf(stderr, "usage: bench_missed_rounds CONFIG [KEY=VALUE]...\n");
    return 2;
  }
  try {
    causeway::compare(causeway::run::load_config(words[1], {words + 2, words + count}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
