#include "intra/worker/step_proofs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/intra/worker/region_under_test.h"
#include "tests/support/process_limits.h"

namespace causeway::intra {
namespace {

// A region of one worker whose rounds of four steps have leaves after three and four of them.
class StepProofs : public testing::Test {
 protected:
  void prove() {
    eu.set_all([](WorkerOptions& options) { options.train.prove_steps = 3; });
  }
  void train() {
    eu.start();
    eu.finished();
  }
  // By round of what was contributed.
  std::vector<bool> proven() const {
    std::vector<bool> proven;
    for (const diloco::Contribution& one : run.contributions())
      proven.push_back(one.proof.has_value());
    return proven;
  }
  std::filesystem::path region() const { return directory.path() / "eu"; }

  const TemporaryDirectory directory;
  FakeRun run{{"eu"}, kRounds, kSteps};
  RegionUnderTest eu{run, directory, "eu", 0, 1};
};

TEST_F(StepProofs, EveryContributionHasTheRootOfWhatIsKept) {
  prove();
  train();
  ASSERT_EQ(run.contributions().size(), kRounds);
  for (const diloco::Contribution& made : run.contributions()) {
    const RoundProof kept = read_proof(proof_leaves_file(region(), made.round));
    EXPECT_EQ(kept.root(), made.proof);
    std::vector<std::uint32_t> steps;
    for (const ProofLeaf& leaf : kept.leaves) steps.push_back(leaf.steps);
    EXPECT_THAT(steps, testing::ElementsAre(0, 3, 4));
    EXPECT_EQ(diloco::state_digest(kept.leaves[0].params, kept.momentum), made.state);
    EXPECT_EQ(kept.leaves[0].data_cursor, made.data_begin);
    EXPECT_EQ(kept.leaves[2].data_cursor, made.data_cursor);
  }
}

// What was known and what is hashed again is the same.
TEST_F(StepProofs, ARoundBeginsWithTheMomentsThatTheOneBeforeEndedWith) {
  prove();
  train();
  const RoundProof before = read_proof(proof_leaves_file(region(), 1)),
                   after = read_proof(proof_leaves_file(region(), 2));
  EXPECT_EQ(after.leaves[0].first_moment, before.leaves.back().first_moment);
  const diloco::Layout layout(parameter_tensors(eu.options().model));
  TrainingState state(eu.options().inner, layout, kept_by(eu.options()));
  read_proof_state(proof_state_file(region(), 2), state);
  state.optimizer_steps = after.leaves[0].optimizer_steps;
  ProofLeaf first{.data_cursor = after.leaves[0].data_cursor};
  first.residual = diloco::merkle_root(diloco::merkle_leaves(state.residual));
  EXPECT_EQ(leaf_after(first, 0, 0, state), after.leaves[0]);
}

TEST_F(StepProofs, WithoutTheSettingThereIsNone) {
  train();
  EXPECT_THAT(proven(), testing::ElementsAre(false, false, false));
  EXPECT_FALSE(exists(proof_directory(region())));
}

TEST_F(StepProofs, ARoundThatARestartBrokeOffHasNone) {
  prove();
  bool stopped = false;
  run.on_report = [&](const std::string&, const diloco::Progress& progress) {
    if (stopped || progress.step() != kSteps + 2) return;
    stopped = true;
    eu.interrupt();  // saves in the middle of round 1
  };
  eu.start();
  eu.expect_interrupted();
  ASSERT_TRUE(stopped);
  eu.interrupt(false);
  train();
  EXPECT_THAT(proven(), testing::ElementsAre(true, false, true));
}

TEST_F(StepProofs, ARestartBeforeTheRecordKeepsTheProofOfWhatWasContributed) {
  prove();
  bool stopped = false;
  run.no_room = [&](const diloco::Contribution& made) {
    if (stopped || made.round != 1) return false;
    stopped = true;
    eu.interrupt();  // saves what no record lists yet
    return true;
  };
  eu.start();
  eu.expect_interrupted();
  ASSERT_TRUE(stopped);
  eu.interrupt(false);
  train();
  const auto made = run.contributions();  // round 1's was handed over twice
  EXPECT_THAT(proven(), testing::ElementsAre(true, true, true, true));
  EXPECT_EQ(made[1].round, 1U);
  EXPECT_EQ(made[1].proof, made[2].proof);
  EXPECT_EQ(read_proof(proof_leaves_file(region(), 1)).root(), made[2].proof);
}

TEST_F(StepProofs, ADiskThatRefusesCostsTheProofAlone) {
  prove();
  std::optional<test::FullDisk> full(100000);  // a payload, not a state
  run.on_report = [&](const std::string&, const diloco::Progress& progress) {
    if (full && progress.step() > kSteps) full.reset();
  };
  train();
  EXPECT_THAT(proven(), testing::ElementsAre(false, testing::_, true));
}

}  // namespace
}  // namespace causeway::intra
