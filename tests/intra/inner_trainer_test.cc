#include "intra/inner_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "intra/model/model.h"
#include "tests/intra/on_ranks.h"
#include "tests/intra/tiny_options.h"

namespace causeway::intra {
namespace {

// Parameters and loss after two steps of a group of `world` ranks.
struct Trained {
  std::vector<float> params;
  double loss = 0;
};

Trained train(const WorkerOptions& options, std::size_t world) {
  Trained result;
  std::mutex mutex;
  on_ranks(world, [&](Collective& group) {
    const diloco::Layout layout(parameter_tensors(options.model));
    TrainingState state(options.inner, layout);
    const auto trainer = make_inner_trainer(options);
    initial_weights(options, layout, state.params);
    trainer->join(group, state);
    StepOutcome outcome;
    for (const std::uint64_t step : {0, 1})
      outcome =
          trainer->step({step, step * static_cast<std::uint64_t>(options.train.batch)}, false);
    trainer->leave();
    const std::lock_guard lock(mutex);
    if (result.params.empty()) result = {state.params, outcome.loss};
    EXPECT_EQ(state.params, result.params) << "rank " << group.rank();
    EXPECT_EQ(outcome.loss, result.loss);
  });
  return result;
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

}  // namespace
}  // namespace causeway::intra
