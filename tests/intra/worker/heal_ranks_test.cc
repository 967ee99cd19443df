#include "intra/worker/heal_ranks.h"

#include <gtest/gtest.h>

#include "intra/model/model.h"
#include "tests/intra/collective/on_ranks.h"
#include "tests/intra/step/tiny_options.h"

namespace causeway::intra {
namespace {

class StateAgreement : public testing::Test {
 protected:
  using Change = std::function<void(std::size_t rank, TrainingState&)>;

  // Three ranks with the same fresh state, but for what `change` does to it.
  void agree(
      const Change& change, Healing expected,
      const std::function<void(TrainingState&)>& check = [](auto&) {}) {
    on_ranks(3, [&](Collective& group) {
      TrainingState state({}, layout_);
      state.digest = whole_digest(state);
      change(group.rank(), state);
      EXPECT_EQ(heal_ranks(group, directory_.path(), layout_, state), expected);
      check(state);
    });
  }

  const TemporaryDirectory directory_;
  const diloco::Layout layout_{parameter_tensors(tiny_options(directory_).model)};
};

TEST_F(StateAgreement, EqualStatesAreLeftAlone) {
  agree([](std::size_t, TrainingState& state) { state.params[3] = 1; }, Healing::same);
  EXPECT_FALSE(std::filesystem::exists(directory_.path() / "checkpoints")) << "nothing is written";
}

TEST_F(StateAgreement, TheHighestVersionCounts) {
  const auto change = [](std::size_t rank, TrainingState& state) {
    state.version = rank == 1 ? 7 : 6;
    state.work.steps = rank == 1 ? 0 : 5;
    state.params[3] = static_cast<float>(rank);
    state.optimizer.first_moment()[3] = static_cast<float>(rank);
    state.run_id = "run";
  };
  agree(change, Healing::newest, [](TrainingState& state) {
    EXPECT_EQ(state.version, 7);
    EXPECT_EQ(state.work.steps, 0);
    EXPECT_EQ(state.params[3], 1);
    EXPECT_EQ(state.optimizer.first_moment()[3], 1);
  });
}

TEST_F(StateAgreement, OfOneVersionTheMostStepsCount) {
  const auto change = [](std::size_t rank, TrainingState& state) {
    state.work.steps = rank == 2 ? 3 : 2;
    state.params[0] = rank == 2 ? 3 : 2;
  };
  agree(change, Healing::newest, [](TrainingState& state) {
    EXPECT_EQ(state.work.steps, 3);
    EXPECT_EQ(state.params[0], 3);
  });
}

TEST_F(StateAgreement, WhatIsHalfChangedIsNotTaken) {
  const auto change = [](std::size_t rank, TrainingState& state) {
    state.version = rank;
    state.intact = rank < 2;
  };
  agree(change, Healing::newest, [](TrainingState& state) {
    EXPECT_EQ(state.version, 1);
    EXPECT_TRUE(state.intact);
  });
}

TEST_F(StateAgreement, NobodysStateMayBeWhole) {
  agree([](std::size_t, TrainingState& state) { state.intact = false; }, Healing::none_is_whole);
}

}  // namespace

}  // namespace causeway::intra
