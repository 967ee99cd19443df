// Inner steps and outer rounds of a region on its devices, which may encode beside a step, against
// the same with rounds in the state: the same bits.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "intra/cuda/step/device_stepper.h"
#include "intra/model/model.h"
#include "intra/outer/outer_round.h"
#include "tests/intra/collective/on_ranks.h"
#include "tests/intra/cuda/models.h"

namespace causeway::intra::cuda {

struct RoundsCase {
  diloco::OverlapOptions overlap;
  std::uint32_t ranks = 1;
  bool offload = false;
  ModelOptions model = llama();
};

class RankOfRounds {
 public:
  RankOfRounds(const RoundsCase& tested, bool in_the_state, Collective& group,
               std::unique_ptr<Backend> backend)
      : in_the_state_(in_the_state),
        group_(group),
        options_(options_of(tested)),
        layout_(parameter_tensors(options_.model)),
        round_({.region = "us", .rank = group.rank(), .world = group.size()}, {}, {},
               options_.overlap, layout_),
        state_(options_.inner, layout_),
        stepper_(make_device_stepper(options_, std::move(backend))) {
    initialise_parameters(options_.model, layout_, 1, state_.params);
    state_.anchor = state_.params;
    state_.digest = whole_digest(state_);
    stepper_->join(group, state_);
  }

  // With a step between contribution and record: on a device that encodes beside it, in the middle
  // of encoding.
  void round() {
    step({});
    state_.work.steps = 1;
    Encoding made;
    where([&](OuterSpans& spans) { made = round_.take_delta(group_, {2, 24}, state_, spans); });
    const auto encode_delta = [&] {
      where([&](OuterSpans& spans) { round_.encode_delta(group_, state_, spans, made); });
    };
    if (in_the_state_ || !options_.overlap.encodes_beside_steps()) {
      encode_delta();
      step({});
    } else {
      step(encode_delta);
    }
    apply();
  }

  // Of two micro-batches.
  void step(const std::function<void()>& beside) {
    const tiny::Sequences all(options_.model, options_.train.batch, options_.model.context,
                              static_cast<std::int64_t>(state_.optimizer_steps));
    const auto first = 2 * static_cast<std::int64_t>(group_.rank());
    const float scale = 1 / static_cast<float>(options_.train.batch);
    stepper_->host_work().put(beside);
    stepper_->begin(1e-3F);
    stepper_->accumulate(all.part(first, 1), {.seed = 3}, scale, false);
    stepper_->accumulate(all.part(first + 1, 1), {.seed = 3}, scale, true);
    stepper_->finish();
    EXPECT_TRUE(std::isfinite(stepper_->update()));
    ++state_.optimizer_steps;
  }

  void rejoin() {
    stepper_->leave();
    stepper_->join(group_, state_);
  }
  TrainingState end() {
    stepper_->leave();
    return std::move(state_);
  }

 private:
  static WorkerOptions options_of(const RoundsCase& tested) {
    WorkerOptions options;
    options.model = tested.model;
    options.model.precision = ModelOptions::Precision::bf16;
    options.world = tested.ranks;
    options.train.batch = 2 * std::int64_t{tested.ranks};
    options.train.micro_batches = 2;
    // Sums begin while backward goes on; each bucket is a meeting of the ranks, and one that is
    // larger takes no longer on a host whose cores are busy.
    constexpr std::size_t kBuckets = 16;
    options.train.bucket_bytes =
        sizeof(float) * diloco::Layout(parameter_tensors(tested.model)).size() / kBuckets;
    options.train.offload_outer_state = tested.offload;
    options.overlap = tested.overlap;
    return options;
  }

  template <typename Work>
  void where(const Work& work) {
    if (!in_the_state_) return work(*stepper_->outer_spans());
    stepper_->settle(Settle::all);
    work(host_);
    stepper_->params_changed();
  }

  void apply() {
    const InFlight own = *state_.own(0);
    diloco::CommitRecord record;
    record.round = state_.version;
    record.state = state_.digest;
    record.participants.push_back({.region = "us",
                                   .round = state_.version,
                                   .weight = 1,
                                   .payload = own.identified().payload});
    const std::span<const std::byte> payload = own.payload.bytes();
    where([&](OuterSpans& spans) {
      round_.apply(group_, record, std::span(&payload, 1), state_, spans);
    });
  }

  bool in_the_state_;
  Collective& group_;
  WorkerOptions options_;
  diloco::Layout layout_;
  OuterRound round_;
  TrainingState state_;
  HostSpans host_{layout_, state_};
  std::unique_ptr<Stepper> stepper_;
};

using MakeRanksBackend = std::function<std::unique_ptr<Backend>()>;

inline TrainingState three_rounds(const RoundsCase& tested, bool in_the_state,
                                  const MakeRanksBackend& make) {
  TrainingState end({}, diloco::Layout({}));
  on_ranks(tested.ranks, [&](Collective& group) {
    RankOfRounds rank(tested, in_the_state, group, make());
    for (int round = 0; round < 3; ++round) rank.round();
    rank.step({});
    TrainingState state = rank.end();
    if (group.rank() == 0) end = std::move(state);
  });
  return end;
}

inline void expect_bits_of_rounds_in_the_state(const RoundsCase& tested,
                                               const MakeRanksBackend& make) {
  const TrainingState there = three_rounds(tested, false, make),
                      here = three_rounds(tested, true, make);
  EXPECT_EQ(there.version, 3);
  EXPECT_EQ(there.digest, here.digest);
  EXPECT_TRUE(there.params == here.params);
  EXPECT_TRUE(there.residual == here.residual);
  EXPECT_TRUE(there.mark == here.mark);
}

inline std::vector<RoundsCase> rounds_of_ranks(const ModelOptions& model) {
  using Variant = diloco::OverlapOptions::Variant;
  return {{.overlap = {.variant = Variant::streaming}, .ranks = 2, .model = model},
          {.overlap = {.variant = Variant::delayed}, .ranks = 3, .model = model}};
}

inline std::vector<RoundsCase> rounds_cases(const ModelOptions& model) {
  using Variant = diloco::OverlapOptions::Variant;
  const diloco::OverlapOptions fragments{.variant = Variant::streaming, .fragments = 2};
  std::vector<RoundsCase> cases = rounds_of_ranks(model);
  for (const Variant variant :
       {Variant::synchronous, Variant::eager, Variant::streaming, Variant::delayed})
    cases.push_back({.overlap = {.variant = variant}, .model = model});
  cases.push_back({.overlap = fragments, .model = model});
  cases.push_back({.overlap = fragments, .offload = true, .model = model});
  return cases;
}

}  // namespace causeway::intra::cuda
