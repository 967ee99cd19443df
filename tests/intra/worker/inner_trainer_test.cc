#include "intra/worker/make_inner_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "intra/model/model.h"
#include "tests/intra/collective/on_ranks.h"
#include "tests/intra/step/tiny_options.h"

namespace causeway::intra {
namespace {

// What two steps of a group of `world` ranks lead to. `told`: after each, that the parameters
// changed.
struct Trained {
  std::vector<float> params, first_moment, second_moment;
  double loss = 0;
};

Trained train(const WorkerOptions& options, std::size_t world, bool told = false) {
  Trained result;
  std::mutex mutex;
  on_ranks(world, [&](Collective& group) {
    const diloco::Layout layout(parameter_tensors(options.model));
    TrainingState state(options.inner, layout);
    const auto trainer = make_inner_trainer(options);
    initial_weights(options, layout, state.params);
    trainer->join(group, state);
    StepOutcome outcome;
    for (const std::uint64_t step : {0, 1}) {
      outcome =
          trainer->step({step, step * static_cast<std::uint64_t>(options.train.batch)}, false);
      if (told) trainer->params_changed();
    }
    EXPECT_EQ(state.optimizer.has_all(), !options.train.shard_optimizer || world == 1);
    trainer->settle(Settle::all);
    trainer->leave();
    EXPECT_TRUE(state.intact && state.optimizer.has_all());
    const auto all = [](std::span<const float> moment) {
      return std::vector<float>(moment.begin(), moment.end());
    };
    const std::lock_guard lock(mutex);
    if (result.params.empty())
      result = {state.params, all(state.optimizer.first_moment()),
                all(state.optimizer.second_moment()), outcome.loss};
    EXPECT_EQ(state.params, result.params) << "rank " << group.rank();
    EXPECT_EQ(outcome.loss, result.loss);
  });
  return result;
}

// What is being saved of it stays as it is, and the step knows for how long it waited.
TEST(InnerTrainer, HoldsItsUpdateBackUntilTheParametersMayChange) {
  const TemporaryDirectory directory;
  for (const std::uint32_t timed_step_ms : {0, 1}) {
    for (const bool shared : {false, true}) {
      WorkerOptions options = tiny_options(directory);
      options.train.steps = 10;
      options.train.timed_step_ms = timed_step_ms;
      options.train.shard_optimizer = shared;
      on_ranks(2, [&](Collective& group) {
        const diloco::Layout layout(parameter_tensors(options.model));
        TrainingState state(options.inner, layout);
        const auto trainer = make_inner_trainer(options);
        initial_weights(options, layout, state.params);
        const std::vector<float> before = state.params;
        trainer->join(group, state);
        int asked = 0;
        trainer->host_work().hold_update([&] {
          EXPECT_EQ(state.params, before);
          EXPECT_TRUE(state.optimizer.has_all());
          ++asked;
        });
        for (const std::uint64_t step : {0, 1}) trainer->step({step, 6 * step}, false);
        EXPECT_EQ(asked, 1);
        EXPECT_NE(state.params, before);
        EXPECT_GT(trainer->host_work().take_held_up_s(), 0);
        trainer->settle(Settle::all);
        trainer->leave();
      });
    }
  }
}

// Six sequences on up to seven ranks: shares differ, and one has none.
TEST(InnerTrainer, EverySequenceCountsAlikeWhateverTheNumberOfRanks) {
  const TemporaryDirectory directory;
  WorkerOptions options = tiny_options(directory);
  options.train.steps = 10;
  options.inner.lr = 1e-3F;
  options.train.micro_batches = 2;
  const Trained expected = train(options, 1);
  for (const std::size_t world : {2, 4, 5, 7}) {
    const Trained trained = train(options, world);
    EXPECT_NEAR(trained.loss, expected.loss, 1e-5) << world << " ranks";
    EXPECT_THAT(trained.params, testing::Pointwise(testing::FloatNear(2e-5F), expected.params))
        << world << " ranks";
  }
}

// Every rank's numbers, and their sum, are each rounded by a 256th at most.
TEST(InnerTrainer, BucketsInBf16TakeNearlyTheSameSteps) {
  const TemporaryDirectory directory;
  WorkerOptions options = tiny_options(directory);
  options.train.steps = 10;
  options.train.bucket_bytes = 1;
  options.inner.epsilon = 1e-3F;  // or Adam makes a full step of the least difference
  for (const auto optimizer : {InnerOptions::Optimizer::adamw, InnerOptions::Optimizer::muon}) {
    options.inner.optimizer = optimizer;
    // Muon makes as large a step of the least direction of a matrix as of the others.
    const float most = optimizer == InnerOptions::Optimizer::muon ? 2e-3F : 4e-4F;
    for (const bool shared : {false, true}) {
      options.train.shard_optimizer = shared;
      for (const std::size_t world : {1, 3, 7}) {
        options.train.bucket_precision = ModelOptions::Precision::fp32;
        const Trained expected = train(options, world);
        options.train.bucket_precision = ModelOptions::Precision::bf16;
        const Trained trained = train(options, world);
        EXPECT_EQ(trained.params == expected.params, world == 1) << world << " ranks";
        EXPECT_THAT(trained.params, testing::Pointwise(testing::FloatNear(most), expected.params))
            << world << " ranks, shared " << shared;
      }
    }
  }
}

TEST(InnerTrainer, InBf16AStepMultipliesWhatTheOneBeforeLedTo) {
  const TemporaryDirectory directory;
  WorkerOptions options = tiny_options(directory);
  options.train.steps = 10;
  options.model.precision = ModelOptions::Precision::bf16;
  for (const auto optimizer : {InnerOptions::Optimizer::adamw, InnerOptions::Optimizer::muon}) {
    options.inner.optimizer = optimizer;
    for (const bool shared : {false, true}) {
      options.train.shard_optimizer = shared;
      const Trained trained = train(options, 2), told = train(options, 2, true);
      EXPECT_EQ(trained.loss, told.loss) << "shared " << shared;
      EXPECT_EQ(trained.params, told.params) << "shared " << shared;
    }
  }
}

TEST(InnerTrainer, TheBaselineSumsInFp32) {
  const TemporaryDirectory directory;
  WorkerOptions options = tiny_options(directory);
  options.train.steps = 10;
  options.synchronous = WorkerOptions::Synchronous{.rank = 0, .world = 2, .generation = "1"};
  options.world = 1;
  options.region_count = 2;
  const Trained expected = train(options, 2);
  options.train.bucket_precision = ModelOptions::Precision::bf16;
  EXPECT_EQ(train(options, 2).params, expected.params);
}

class SharedOut : public testing::Test {
 protected:
  SharedOut() {
    options_.train.steps = 10;
    options_.train.bucket_bytes = 1;  // as small as they get, so that there are several
  }
  Trained train_with(bool shared, std::size_t world) {
    options_.train.shard_optimizer = shared;
    return train(options_, world);
  }
  // Shared out or not, on any number of ranks.
  void expect_same_bits() {
    for (const std::size_t world : {1, 2, 3}) {
      const Trained whole = train_with(false, world), shared = train_with(true, world);
      EXPECT_EQ(shared.params, whole.params);
      EXPECT_EQ(shared.first_moment, whole.first_moment);
      EXPECT_EQ(shared.second_moment, whole.second_moment);
    }
  }

  const TemporaryDirectory directory_;
  WorkerOptions options_ = tiny_options(directory_);
};

TEST_F(SharedOut, MomentsLeadToTheSameBits) {
  options_.inner.clip_norm = 0;
  expect_same_bits();
}

// The norm that decides about clipping is summed in another order.
TEST_F(SharedOut, ClippedStepsDifferByRoundings) {
  options_.inner.clip_norm = 0.1F;
  const Trained whole = train_with(false, 3), shared = train_with(true, 3);
  EXPECT_THAT(shared.params, testing::Pointwise(testing::FloatNear(1e-6F), whole.params));
}

// Each matrix is stepped by one rank. Which one makes no difference, nor whether momentum is shared
// out.
TEST_F(SharedOut, MuonLeadsToTheSameBits) {
  options_.inner.optimizer = InnerOptions::Optimizer::muon;
  options_.inner.clip_norm = 0;
  options_.model.layers = 3;
  expect_same_bits();
}

TEST(InnerTrainer, MuonTakesTheSameStepsWhateverTheNumberOfRanks) {
  const TemporaryDirectory directory;
  WorkerOptions options = tiny_options(directory);
  options.inner.optimizer = InnerOptions::Optimizer::muon;
  options.train.steps = 10;
  options.inner.lr = 1e-3F;
  const Trained expected = train(options, 1);
  for (const std::size_t world : {2, 4, 7}) {
    const Trained trained = train(options, world);
    EXPECT_NEAR(trained.loss, expected.loss, 1e-5) << world << " ranks";
    EXPECT_THAT(trained.params, testing::Pointwise(testing::FloatNear(2e-5F), expected.params))
        << world << " ranks";
  }
}

}  // namespace
}  // namespace causeway::intra
