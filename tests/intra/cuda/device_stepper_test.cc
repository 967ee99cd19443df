// Whole steps of the device's trainer, played on the CPU, against the CPU's.
#include "intra/cuda/step/device_stepper.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "intra/model/model.h"
#include "tests/intra/collective/on_ranks.h"
#include "tests/intra/cuda/models.h"
#include "tests/intra/cuda/rounds_beside_steps.h"
#include "tests/intra/cuda/serial_backend.h"

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
    stepper->begin(kLr);
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

WorkerOptions with_muon(WorkerOptions options) {
  options.inner.optimizer = InnerOptions::Optimizer::muon;
  return options;
}

TEST(DeviceStepper, TakesTheCpusStepsWithMuon) {
  ModelOptions narrow = gpt2();  // the serial backend multiplies slowly
  narrow.width = 64;
  narrow.heads = narrow.kv_heads = 4;
  for (const ModelOptions& model : {narrow, llama()}) {
    compare_ten_steps(with_muon(options_of(model, ModelOptions::Precision::fp32)), 1e-4, 1e-3);
    compare_ten_steps(with_muon(options_of(model, ModelOptions::Precision::bf16)), 2e-2, 8e-2);
  }
}

// Two ranks' parameters after three steps, each of one of two sequences.
std::vector<std::vector<float>> steps_of_two_ranks(WorkerOptions options) {
  options.world = 2;
  std::vector<std::vector<float>> params(2);
  on_ranks(2, [&](Collective& group) {
    const diloco::Layout layout(parameter_tensors(options.model));
    TrainingState state(options.inner, layout);
    const auto stepper = make_device_stepper(options, std::make_unique<SerialBackend>());
    initialise_parameters(options.model, layout, 1, state.params);
    stepper->join(group, state);
    for (std::int64_t step = 0; step < 3; ++step) {
      const tiny::Sequences sequences(options.model, kBatch, kLength, step);
      stepper->begin(kLr);
      stepper->accumulate(sequences.part(static_cast<std::int64_t>(group.rank()), 1), {},
                          1 / static_cast<float>(kBatch), true);
      stepper->finish();
      EXPECT_TRUE(std::isfinite(stepper->update()));
      ++state.optimizer_steps;
    }
    stepper->settle(Settle::all);
    stepper->leave();
    EXPECT_TRUE(state.intact);
    params[group.rank()] = state.params;
  });
  return params;
}

TEST(DeviceStepper, RanksStepMuonsMatricesForEachOther) {
  for (const auto precision : {ModelOptions::Precision::fp32, ModelOptions::Precision::bf16}) {
    WorkerOptions options = with_muon(options_of(llama(), precision));
    Trainee alone = on_device(options);
    const auto before = alone.state.params;
    for (std::int64_t step = 0; step < 3; ++step)
      alone.step(tiny::Sequences(options.model, kBatch, kLength, step));
    alone.stepper->settle(Settle::all);
    EXPECT_GT(tiny::relative_difference(alone.state.params, before), 1e-2);
    const double tolerance = precision == ModelOptions::Precision::fp32 ? 1e-3 : 2e-2;
    const auto replicated = steps_of_two_ranks(options);
    options.train.shard_optimizer = true;
    const auto shared_out = steps_of_two_ranks(options);
    EXPECT_EQ(replicated[1], replicated[0]);
    EXPECT_EQ(shared_out[1], shared_out[0]);
    EXPECT_LT(tiny::relative_difference(replicated[0], alone.state.params), tolerance);
    EXPECT_LT(tiny::relative_difference(shared_out[0], alone.state.params), tolerance);
  }
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

class RoundsOnDevice : public testing::TestWithParam<RoundsCase> {};

TEST_P(RoundsOnDevice, LeadToTheBitsOfRoundsInTheState) {
  expect_bits_of_rounds_in_the_state(GetParam(), [] { return std::make_unique<SerialBackend>(); });
}

class RoundsOfRanksThatMeetOnTheHost : public testing::TestWithParam<RoundsCase> {};

TEST_P(RoundsOfRanksThatMeetOnTheHost, LeadToTheBitsOfRoundsInTheState) {
  expect_bits_of_rounds_in_the_state(GetParam(),
                                     [] { return std::make_unique<SerialBackend>(true, false); });
}

ModelOptions short_llama() {
  ModelOptions model = llama();
  model.context = kLength;
  return model;
}
INSTANTIATE_TEST_SUITE_P(Cases, RoundsOnDevice, testing::ValuesIn(rounds_cases(short_llama())));
INSTANTIATE_TEST_SUITE_P(Cases, RoundsOfRanksThatMeetOnTheHost,
                         testing::ValuesIn(rounds_of_ranks(short_llama())));

// As when the coordinator's host is out of memory, or a rank is lost: what was begun ends there.
TEST(RoundsBesideSteps, StepsGoOnAfterOneBesideWhichEncodingFailed) {
  const RoundsCase streaming{.overlap = {.variant = diloco::OverlapOptions::Variant::streaming},
                             .ranks = 2};
  on_ranks(streaming.ranks, [&](Collective& group) {
    RankOfRounds rank(streaming, false, group, std::make_unique<SerialBackend>());
    const auto fail = [] { throw std::runtime_error("no memory"); };
    EXPECT_THROW(rank.step(fail), std::runtime_error);
    rank.rejoin();
    rank.step({});
    rank.round();
  });
}

TEST(DeviceStepper, SaysHowMuchOfTheDevicesMemoryIsInUse) {
  const WorkerOptions options = options_of(llama(), ModelOptions::Precision::fp32);
  const Trainee device = on_device(options);
  constexpr std::uint64_t kPerParameter = 2 * sizeof(float);  // it and its gradient
  EXPECT_GT(device.stepper->device_memory_peak_bytes(), kPerParameter * device.layout.size());
  EXPECT_EQ(make_cpu_stepper(options)->device_memory_peak_bytes(), 0);
}

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
      stepper->begin(kLr);
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

// Numbers, and their sum, are each rounded by a 256th at most.
TEST(DeviceStepper, RanksWhoseBucketsAreInBf16TakeNearlyTheSameSteps) {
  WorkerOptions options = options_of_ranks(3, ModelOptions::Precision::fp32);
  options.inner.epsilon = 1e-3F;  // or Adam makes a full step of the least difference
  const TrainingState expected = two_steps(options, true);
  options.train.bucket_precision = ModelOptions::Precision::bf16;
  const TrainingState found = two_steps(options, true);
  EXPECT_NE(found.params, expected.params);
  EXPECT_LT(tiny::relative_difference(found.params, expected.params), 1e-4);
  EXPECT_EQ(two_steps(options, false).params, found.params) << "by way of the hosts";
  options.train.shard_optimizer = true;
  const TrainingState shared = two_steps(options, true);
  EXPECT_LT(tiny::relative_difference(shared.params, expected.params), 1e-4);
  EXPECT_NE(shared.params, found.params) << "the sum is not rounded then";
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
