// Whole steps of the device's trainer, played on the CPU, against the CPU's.
#include "intra/cuda/device_stepper.h"

#include <gtest/gtest.h>

#include <cmath>

#include "intra/model/initialise.h"
#include "intra/outer_round.h"
#include "tests/intra/cuda/models.h"
#include "tests/intra/cuda/serial_backend.h"
#include "tests/intra/on_ranks.h"

namespace causeway::intra::cuda {
namespace {

constexpr std::int64_t kBatch = 2, kLength = 12;
constexpr float kLr = 1e-3F;

WorkerOptions options_of(ModelOptions model, ModelOptions::Precision precision) {
  WorkerOptions options;
  options.model = model;
  options.model.precision = precision;
  options.train.batch = kBatch;
  options.inner.clip_norm = 0.5F;  // takes effect in the first steps
  return options;
}

// A stepper and the state that it trains, from the same parameters.
struct Trainee {
  Trainee(const WorkerOptions& options, std::unique_ptr<Stepper> made)
      : layout(parameter_tensors(options.model)),
        state(options.inner, layout),
        group(make_solo_collective()),
        stepper(std::move(made)) {
    initialise_parameters(options.model, layout, 1, state.params);
    stepper->join(*group, state);
  }

  float step(const tiny::Sequences& sequences) {
    stepper->begin(kLr, {});
    stepper->accumulate(sequences.all(), {.seed = 3, .step = state.optimizer_steps}, 1, true);
    const float loss = stepper->finish().loss;
    norm = stepper->update();
    if (std::isfinite(norm)) ++state.optimizer_steps;
    return loss;
  }

  diloco::Layout layout;
  TrainingState state;
  std::unique_ptr<Collective> group;
  std::unique_ptr<Stepper> stepper;
  double norm = 0;
};

Trainee on_device(const WorkerOptions& options) {
  return {options, make_device_stepper(options, std::make_unique<SerialBackend>())};
}

void compare_ten_steps(const WorkerOptions& options, double loss_tolerance, double tolerance) {
  Trainee cpu(options, make_cpu_stepper(options));
  Trainee device = on_device(options);
  for (std::int64_t step = 0; step < 10; ++step) {
    const tiny::Sequences sequences(options.model, kBatch, kLength, step);
    EXPECT_NEAR(device.step(sequences), cpu.step(sequences), loss_tolerance) << step;
    EXPECT_NEAR(device.norm, cpu.norm, tolerance * cpu.norm) << step;
  }
  device.stepper->settle(Settle::all);
  EXPECT_LT(tiny::relative_difference(device.state.params, cpu.state.params), tolerance);
  EXPECT_LT(tiny::relative_difference(device.state.optimizer.first_moment(),
                                      cpu.state.optimizer.first_moment()),
            tolerance);
  EXPECT_LT(tiny::relative_difference(device.state.optimizer.second_moment(),
                                      cpu.state.optimizer.second_moment()),
            2 * tolerance);
}

TEST(DeviceStepper, TakesTheCpusStepsInFp32) {
  compare_ten_steps(options_of(gpt2(), ModelOptions::Precision::fp32), 1e-4, 1e-3);
  compare_ten_steps(options_of(llama(), ModelOptions::Precision::fp32), 1e-4, 1e-3);
}

TEST(DeviceStepper, TakesTheCpusStepsInBf16) {
  compare_ten_steps(options_of(gpt2(), ModelOptions::Precision::bf16), 2e-2, 8e-2);
  compare_ten_steps(options_of(llama(), ModelOptions::Precision::bf16), 2e-2, 8e-2);
}

TEST(DeviceStepper, StateFollowsWhenAskedAndTheDeviceFollowsTheState) {
  const WorkerOptions options = options_of(llama(), ModelOptions::Precision::fp32);
  Trainee device = on_device(options);
  const tiny::Sequences sequences(options.model, kBatch, kLength);
  const auto before = device.state.params;
  device.step(sequences);
  EXPECT_EQ(device.state.params, before) << "not asked yet";
  device.stepper->settle(Settle::params);
  EXPECT_NE(device.state.params, before);
  EXPECT_EQ(tiny::norm(device.state.optimizer.first_moment()), 0);

  const float loss = device.stepper->evaluate(sequences.all(), before);
  device.state.params = before;
  device.stepper->params_changed();
  EXPECT_NEAR(device.step(sequences), loss, 1e-5);
  device.stepper->leave();
  EXPECT_GT(tiny::norm(device.state.optimizer.first_moment()), 0);
}

// Without the state's own copies, and with the weights of bf16 that follow the parameters.
TEST(DeviceStepper, StepsGoOnFromWhereAnOuterRoundPutTheParameters) {
  const WorkerOptions options = options_of(llama(), ModelOptions::Precision::bf16);
  const tiny::Sequences sequences(options.model, kBatch, kLength);
  Trainee device = on_device(options), expected = on_device(options);
  std::vector<float> anchor = device.state.params;
  for (float& value : anchor) value *= 0.5F;
  device.state.anchor = anchor;
  device.step(sequences);
  device.stepper->outer_spans()->copy(Flat::anchor, Flat::params);
  expected.state.params = anchor;
  expected.stepper->params_changed();
  EXPECT_EQ(device.step(sequences), expected.step(sequences));

  device.stepper->outer_spans()->copy(Flat::params, Flat::anchor);
  EXPECT_EQ(device.state.anchor, anchor) << "not asked yet";
  device.stepper->settle(Settle::all);
  EXPECT_EQ(device.state.anchor, device.state.params);
  EXPECT_NE(device.state.anchor, anchor);
}

// A region whose outer rounds are computed on its devices, or in the state.
struct RoundsCase {
  diloco::OverlapOptions::Variant variant;
  std::uint32_t ranks = 1;
  bool meet_on_devices = true;
  bool in_the_state = false;
};

class RankOfRounds {
 public:
  RankOfRounds(const RoundsCase& tested, Collective& group)
      : tested_(tested),
        group_(group),
        options_(options_of_ranks(tested)),
        layout_(parameter_tensors(options_.model)),
        round_({.region = "us", .rank = group.rank(), .world = group.size()}, {}, {},
               options_.overlap, layout_),
        state(options_.inner, layout_),
        stepper_(make_device_stepper(
            options_, std::make_unique<SerialBackend>(false, tested.meet_on_devices))) {
    initialise_parameters(options_.model, layout_, 1, state.params);
    state.anchor = state.params;
    state.digest = whole_digest(state);
    stepper_->join(group, state);
  }

  // With a step between contribution and record: on a device that encodes beside it, in the middle
  // of encoding.
  void round() {
    step({});
    state.work.steps = 1;
    Encoding made;
    where([&](OuterSpans& spans) { made = round_.take_delta(group_, {2, 24}, state, spans); });
    const auto encode_delta = [&] {
      where([&](OuterSpans& spans) { round_.encode_delta(group_, state, spans, made); });
    };
    if (tested_.in_the_state || !options_.overlap.encodes_beside_steps()) {
      encode_delta();
      step({});
    } else {
      step(encode_delta);
    }
    apply();
  }
  void step(const Stepper::Meanwhile& meanwhile) {
    const tiny::Sequences all(options_.model, options_.train.batch, kLength,
                              static_cast<std::int64_t>(state.optimizer_steps));
    const auto first = kBatch * static_cast<std::int64_t>(group_.rank());
    stepper_->begin(kLr, meanwhile);
    stepper_->accumulate(all.part(first, kBatch), {.seed = 3},
                         1 / static_cast<float>(tested_.ranks), true);
    stepper_->finish();
    EXPECT_TRUE(std::isfinite(stepper_->update()));
    ++state.optimizer_steps;
  }
  void leave() { stepper_->leave(); }

 private:
  static WorkerOptions options_of_ranks(const RoundsCase& tested) {
    WorkerOptions options = options_of(llama(), ModelOptions::Precision::bf16);
    options.world = tested.ranks;
    options.train.batch = kBatch * std::int64_t{tested.ranks};
    options.train.bucket_bytes = 1;  // sums begin while backward goes on
    options.overlap.variant = tested.variant;
    return options;
  }

  template <typename Work>
  void where(const Work& work) {
    if (!tested_.in_the_state) return work(*stepper_->outer_spans());
    HostSpans spans(layout_, state);
    stepper_->settle(Settle::all);
    work(spans);
    stepper_->params_changed();
  }

  void apply() {
    const InFlight own = *state.own(0);
    diloco::CommitRecord record;
    record.round = state.version;
    record.state = state.digest;
    record.participants.push_back(
        {.region = "us", .round = state.version, .weight = 1, .payload = own.identified().payload});
    const std::span<const std::byte> payload = own.payload.bytes();
    where([&](OuterSpans& spans) {
      round_.apply(group_, record, std::span(&payload, 1), state, spans);
    });
  }

  RoundsCase tested_;
  Collective& group_;
  WorkerOptions options_;
  diloco::Layout layout_;
  OuterRound round_;

 public:
  TrainingState state;

 private:
  std::unique_ptr<Stepper> stepper_;
};

TrainingState two_rounds(const RoundsCase& tested) {
  TrainingState end({}, diloco::Layout({}));
  on_ranks(tested.ranks, [&](Collective& group) {
    RankOfRounds rank(tested, group);
    rank.round();
    rank.round();
    rank.step({});
    rank.leave();
    if (group.rank() == 0) end = std::move(rank.state);
  });
  return end;
}

class RoundsOnDevice : public testing::TestWithParam<RoundsCase> {};

TEST_P(RoundsOnDevice, LeadToTheBitsOfRoundsInTheState) {
  RoundsCase in_the_state = GetParam();
  in_the_state.in_the_state = true;
  const TrainingState there = two_rounds(GetParam()), here = two_rounds(in_the_state);
  EXPECT_EQ(there.version, 2);
  EXPECT_EQ(there.digest, here.digest);
  EXPECT_EQ(there.params, here.params);
  EXPECT_EQ(there.residual, here.residual);
  EXPECT_EQ(there.mark, here.mark);
}

using Variant = diloco::OverlapOptions::Variant;
INSTANTIATE_TEST_SUITE_P(Cases, RoundsOnDevice,
                         testing::Values(RoundsCase{Variant::synchronous},
                                         RoundsCase{Variant::eager}, RoundsCase{Variant::streaming},
                                         RoundsCase{Variant::delayed},
                                         RoundsCase{Variant::streaming, 2},
                                         RoundsCase{Variant::streaming, 2, false},
                                         RoundsCase{Variant::delayed, 3}));

TEST(DeviceStepper, EvaluatesMoreSequencesThanFitAtATime) {
  const WorkerOptions options = options_of(llama(), ModelOptions::Precision::fp32);
  Trainee cpu(options, make_cpu_stepper(options));
  Trainee device = on_device(options);
  const tiny::Sequences sequences(options.model, 2 * kBatch + 1, kLength);
  EXPECT_NEAR(device.stepper->evaluate(sequences.all(), device.state.params),
              cpu.stepper->evaluate(sequences.all(), cpu.state.params), 1e-5);
}

// As a rank does whose peers were lost.
TEST(DeviceStepper, TakesMoreSequencesThanFitInParts) {
  const WorkerOptions options = options_of(llama(), ModelOptions::Precision::fp32);
  Trainee cpu(options, make_cpu_stepper(options));
  Trainee device = on_device(options);
  const tiny::Sequences sequences(options.model, 2 * kBatch + 1, kLength);
  EXPECT_NEAR(device.step(sequences), cpu.step(sequences), 1e-5);
  EXPECT_NEAR(device.norm, cpu.norm, 1e-4 * cpu.norm);
}

TEST(DeviceStepper, LeavesParametersWhenTheGradientIsNotFinite) {
  const WorkerOptions options = options_of(llama(), ModelOptions::Precision::bf16);
  Trainee device = on_device(options);
  const auto& norm_weight = device.layout.find("model.norm.weight");
  device.state.params[norm_weight.offset] = std::nanf("");
  const auto before = device.state.params;
  device.step(tiny::Sequences(options.model, kBatch, kLength));
  EXPECT_FALSE(std::isfinite(device.norm));
  device.stepper->settle(Settle::all);
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(device.state.params)),
                                 std::as_bytes(std::span(before))));
}

// Two steps of as many ranks as the options have, each of two micro-batches of a sequence; in
// buckets as small as they get: some are summed while backward goes on, others at its end.
TrainingState two_steps(WorkerOptions options, bool group_on_device) {
  options.train.bucket_bytes = 1;
  const diloco::Layout layout(parameter_tensors(options.model));
  TrainingState result(options.inner, layout);
  on_ranks(options.world, [&](Collective& group) {
    TrainingState state(options.inner, layout);
    const auto stepper =
        make_device_stepper(options, std::make_unique<SerialBackend>(false, group_on_device));
    initialise_parameters(options.model, layout, 1, state.params);
    stepper->join(group, state);
    for (; state.optimizer_steps < 2; ++state.optimizer_steps) {
      const tiny::Sequences all(options.model, options.train.batch, kLength,
                                static_cast<std::int64_t>(state.optimizer_steps));
      const auto first = 2 * static_cast<std::int64_t>(group.rank());
      const float scale = 1 / static_cast<float>(options.train.batch);
      stepper->begin(kLr, {});
      stepper->accumulate(all.part(first, 1), {.seed = 3}, scale, false);
      stepper->accumulate(all.part(first + 1, 1), {.seed = 3}, scale, true);
      stepper->finish();
      EXPECT_TRUE(std::isfinite(stepper->update()));
    }
    EXPECT_EQ(state.optimizer.has_all(), !options.train.shard_optimizer);
    stepper->settle(Settle::all);
    if (group.rank() == 0) result = std::move(state);
  });
  return result;
}

WorkerOptions options_of_ranks(std::uint32_t ranks, ModelOptions::Precision precision) {
  WorkerOptions options = options_of(llama(), precision);
  options.world = ranks;
  options.train.batch = 2 * std::int64_t{ranks};
  return options;
}

void expect_steps_of_the_sum(std::uint32_t ranks, bool group_on_device) {
  const WorkerOptions options = options_of_ranks(ranks, ModelOptions::Precision::fp32);
  Trainee alone = on_device(options);
  for (const std::int64_t step : {0, 1}) {
    alone.step(tiny::Sequences(options.model, options.train.batch, kLength, step));
  }
  alone.stepper->settle(Settle::params);
  const TrainingState together = two_steps(options, group_on_device);
  EXPECT_LT(tiny::relative_difference(together.params, alone.state.params), 1e-5);
}

TEST(DeviceStepper, RanksTakeTheStepsOfTheirSum) {
  expect_steps_of_the_sum(2, true);
  expect_steps_of_the_sum(3, true);
}

TEST(DeviceStepper, RanksWhoseGpusDoNotMeetSumOnTheHost) {
  expect_steps_of_the_sum(2, false);
}

TEST(DeviceStepper, MomentsThatAreSharedOutLeadToTheSameBits) {
  WorkerOptions options = options_of_ranks(2, ModelOptions::Precision::bf16);
  options.inner.clip_norm = 0;  // the norm is summed in another order
  options.train.stochastic_rounding = true;
  TrainingState whole = two_steps(options, true);
  options.train.shard_optimizer = true;
  TrainingState shared = two_steps(options, true);
  EXPECT_EQ(shared.params, whole.params);
  const auto equal = [](std::span<const float> a, std::span<const float> b) {
    return std::ranges::equal(a, b);
  };
  EXPECT_TRUE(equal(shared.optimizer.first_moment(), whole.optimizer.first_moment()));
  EXPECT_TRUE(equal(shared.optimizer.second_moment(), whole.optimizer.second_moment()));
}

// Of other ranks' parts too.
TEST(DeviceStepper, MomentsThatAreSharedOutAreClippedByTheWholeNorm) {
  WorkerOptions options = options_of_ranks(3, ModelOptions::Precision::fp32);
  const TrainingState whole = two_steps(options, true);
  options.train.shard_optimizer = true;
  const TrainingState shared = two_steps(options, false);
  EXPECT_LT(tiny::relative_difference(shared.params, whole.params), 1e-6);
}

// Of 2^-9 above a bf16, half the weights are rounded up if it is done at random, and none else.
TEST(StochasticRounding, HasTheMeanOfWhatItRounds) {
  constexpr std::int64_t kPacks = 4096;
  std::vector<Pack<float>> params(kPacks), zeros(kPacks);
  std::vector<Pack<Bfloat16>> weights(kPacks);
  for (auto& pack : params) {
    for (float& value : pack.v) value = 1 + 0x1p-9F;
  }
  UpdateScalars update{.factors = {.epsilon = 1}, .rounding_key = {1, 2}};
  const StepResult result{.clip = 1};
  AdamWStep<Bfloat16> job{.packs = kPacks, .update = &update, .result = &result};
  job.gradients = job.first_moment = job.second_moment = zeros.data();
  job.params = params.data();
  job.weights = weights.data();
  for (const bool stochastic : {false, true}) {
    job.dither = stochastic ? &update.rounding_key : nullptr;
    SerialBackend backend;
    backend.run(job);
    backend.point()->wait();
    double sum = 0;
    for (const auto& pack : weights) sum += total(unpack(pack)) - kPack;
    const double mean = sum / (kPacks * kPack);
    EXPECT_NEAR(mean, stochastic ? 0x1p-9 : 0, 1e-4);
  }
}

}  // namespace
}  // namespace causeway::intra::cuda
