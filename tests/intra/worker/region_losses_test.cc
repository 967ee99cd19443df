// Regions that lose their coordinator, a rank, their state or their place in the run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "intra/worker/region_worker.h"
#include "intra/worker/worker_result.h"
#include "tests/intra/worker/region_under_test.h"

namespace causeway::intra {
namespace {

TEST(RegionWorker, LosesNothingWhenItsCoordinatorDies) {
  for (const std::uint32_t world : {1, 2}) {
    const Pair expected = undisturbed_pair(world);
    const TemporaryDirectory directory;
    FakeRun run({"eu", "us"}, kRounds, kSteps);
    int losses = 0;
    run.lose_after_contribution = [&](const diloco::Contribution& contribution) {
      return contribution.region == "us" && contribution.round == 1 && ++losses == 1;
    };
    RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2, world);
    eu.start();
    us.start();
    EXPECT_EQ(us.finished().params_digest, expected.us);
    EXPECT_EQ(us.finished().progress.step(), kRounds * kSteps) << "no step is taken twice";
    EXPECT_EQ(eu.finished().params_digest, expected.us);
    EXPECT_EQ(losses, 1);
  }
}

// A worker that ends is not started again by every launcher; one whose coordinator runs out of
// memory at each start has nothing to do with that.
TEST(RegionWorker, ACoordinatorThatDiesAgainAndAgainEndsNoWorker) {
  constexpr std::uint32_t kLosses = 20;
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, kRounds, kSteps);
  std::uint32_t losses = 0;
  run.lose_instead_of_telling = [&](const std::string&) { return ++losses <= kLosses; };
  RegionUnderTest eu(run, directory, "eu", 0, 1);
  eu.start();
  EXPECT_EQ(eu.finished().params_digest, undisturbed_alone());
  const auto requests = run.requests();
  ASSERT_EQ(requests.size(), kLosses + 1);
  for (std::uint32_t lost = 0; lost <= kLosses; ++lost)
    EXPECT_EQ(requests[lost].sessions_lost, lost) << "it does not hurry";
}

TEST(RegionWorker, InstructionsThatLeadToNothingAreNoProgress) {
  constexpr std::uint32_t kLosses = 3;
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, kRounds, kSteps);
  std::uint32_t asked = 0, losses = 0;
  run.no_room = [&](const diloco::Contribution&) { return losses < kLosses; };
  run.lose_instead_of_telling = [&](const std::string&) {
    const bool lost = ++asked % 2 == 0 && losses < kLosses;
    if (lost) ++losses;
    return lost;
  };
  RegionUnderTest eu(run, directory, "eu", 0, 1);
  eu.start();
  EXPECT_EQ(eu.finished().params_digest, undisturbed_alone());
  const auto requests = run.requests();
  ASSERT_EQ(requests.size(), kLosses + 1);
  for (std::uint32_t lost = 0; lost <= kLosses; ++lost)
    EXPECT_EQ(requests[lost].sessions_lost, lost);
}

TEST(RegionWorker, AContributionThatFindsNoRoomIsHandedOverAgain) {
  const Pair expected = undisturbed_pair(2);
  const TemporaryDirectory directory;
  FakeRun run({"eu", "us"}, kRounds, kSteps);
  int refusals = 0;
  run.no_room = [&](const diloco::Contribution& contribution) {
    return contribution.region == "us" && contribution.round == 1 && ++refusals <= 2;
  };
  RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2, 2);
  eu.start();
  us.start();
  EXPECT_EQ(us.finished().params_digest, expected.us);
  EXPECT_EQ(us.finished().progress.step(), kRounds * kSteps);
  EXPECT_EQ(refusals, 3);
}

TEST(RegionWorker, ARankThatDiesIsReplacedFromTheStateOnDisk) {
  const Pair expected = undisturbed_pair(2);
  const TemporaryDirectory directory;
  FakeRun run({"eu", "us"}, kRounds, kSteps);
  std::atomic<bool> killed = false;
  RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2, 2);
  run.on_report = [&](const std::string& region, const diloco::Progress& progress) {
    if (region == "us" && progress.step() == kSteps + 2 && !killed.exchange(true)) us.kill(1);
  };
  eu.start();
  us.start();
  us.expect_killed(1);
  us.start(1);
  EXPECT_EQ(us.finished().params_digest, expected.us);
  EXPECT_EQ(eu.finished().params_digest, expected.us);
}

TEST(RegionWorker, KilledAfterItsContributionItMakesNoOtherIfItSavesEveryRound) {
  for (const std::uint64_t step : {kSteps, 2 * kSteps}) {
    const TemporaryDirectory directory;
    FakeRun run({"eu", "us"}, kRounds, kSteps);
    RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2);
    std::atomic<bool> killed = false;
    run.on_report = [&](const std::string& region, const diloco::Progress& progress) {
      const bool contributed = progress.phase() == "wait" && progress.step() == step;
      if (region == "us" && contributed && !killed.exchange(true)) us.kill();
    };
    eu.start();
    us.start();
    us.expect_killed();
    us.start();
    EXPECT_EQ(us.finished().params_digest, undisturbed_pair().us);
    EXPECT_EQ(eu.finished().params_digest, undisturbed_pair().us);
    EXPECT_EQ(us.finished().progress.step(), kRounds * kSteps);
  }
}

TEST(RegionWorker, KilledAfterItsContributionItRejoinsWithTheOthersBits) {
  const TemporaryDirectory directory;
  FakeRun run({"eu", "us"}, kRounds, kSteps);
  RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2);
  us.set_all([](WorkerOptions& options) { options.train.checkpoint_rounds = 100; });
  run.on_report = [&](const std::string& region, const diloco::Progress& progress) {
    if (region == "us" && progress.phase() == "wait" && progress.step() == kSteps) us.kill();
  };
  us.start();
  us.expect_killed();
  run.on_report = nullptr;
  us.start();  // from nothing: it had saved no state
  eu.start();
  EXPECT_EQ(us.finished().params_digest, eu.finished().params_digest);
  EXPECT_EQ(run.records().at(0).participants.size(), 2);
  EXPECT_EQ(us.finished().progress.step(), kRounds * kSteps)
      << "those of the worker that died are listed";
  EXPECT_EQ(us.finished().progress.tokens(), kRounds * kSteps * 6 * 8);
}

TEST(RegionWorker, ALateRegionReplaysTheRecords) {
  const TemporaryDirectory directory;
  FakeRun run({"eu", "us"}, kRounds, kSteps);
  run.listed = [](diloco::Round round) {
    return round < 2 ? Listing{{"eu"}} : Listing{{"eu"}, {"us"}};
  };
  RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2, 2);
  eu.start();
  us.start();
  EXPECT_EQ(us.finished().params_digest, eu.finished().params_digest);
}

TEST(RegionWorker, ARegionFarBehindAdoptsASnapshot) {
  const TemporaryDirectory directory;
  FakeRun run({"eu", "us"}, kRounds, kSteps);
  run.listed = [](diloco::Round) { return Listing{{"eu"}}; };
  RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2, 2);
  eu.start();
  const std::string expected = eu.finished().params_digest;
  run.replay_from = kRounds;
  us.start();
  EXPECT_EQ(us.finished(0).params_digest, expected);
  EXPECT_EQ(us.finished(1).params_digest, expected);
  EXPECT_EQ(us.finished().progress.step(), 0);
}

TEST(RegionWorker, ARegionThatStartsOverTrainsAsOneThatStarts) {
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, kRounds, kSteps), again({"eu"}, kRounds, kSteps);
  RegionUnderTest plain(run, directory, "eu", 0, 1, 2);
  plain.start();
  const std::string expected = plain.finished().params_digest;
  const TemporaryDirectory other;
  RegionUnderTest eu(again, other, "eu", 0, 1, 2);
  again.start_over("eu");
  eu.start();
  EXPECT_EQ(eu.finished(0).params_digest, expected);
  EXPECT_EQ(eu.finished(1).params_digest, expected);
}

TEST(RegionWorker, FreshWeightsClaimNoLineage) {
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, kRounds, kSteps);
  RegionUnderTest eu(run, directory, "eu", 0, 1);
  eu.start();
  eu.finished();
  std::filesystem::remove(eu.options().directory / "result.json");  // killed just before it
  eu.start();
  eu.finished();
  const auto requests = run.requests();
  EXPECT_FALSE(requests.at(0).has_lineage);
  EXPECT_TRUE(requests.at(1).has_lineage);
  EXPECT_EQ(requests.at(1).run_id, "run");
  EXPECT_EQ(requests.at(1).version, kRounds);
}

// Begun anew in the directory of an earlier run, of as many rounds.
TEST(RegionWorker, AResultOfAnotherRunIsNotItsOwn) {
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, kRounds, kSteps);
  RegionUnderTest eu(run, directory, "eu", 0, 1);
  for (int time = 0; time < 2; ++time) {
    eu.start();
    eu.finished();
  }
  EXPECT_EQ(run.requests().size(), 1U) << "its own result is there";
  WorkerResult left = read_result(eu.options().directory).value();
  left.run_id = "another";
  write_result(eu.options().directory, left);
  eu.start();
  EXPECT_EQ(eu.finished().run_id, "run");
  EXPECT_EQ(run.requests().size(), 2U);
}

}  // namespace
}  // namespace causeway::intra
