// A region that is cut off, was restarted without its state, fails, or has nothing to offer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>

#include "diloco/files/error.h"
#include "tests/intra/worker/region_under_test.h"
#include "tests/support/process_limits.h"

namespace causeway::intra {
namespace {

// What the coordinator cannot know to be harmless is not kept: the residual of a lost life.
TEST(RegionWorker, WorkAfterALostLifeIsAnotherPartOfTheRound) {
  const TemporaryDirectory directory;
  FakeRun run({"eu", "us"}, kRounds, kSteps);
  RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2);
  us.set_all([](WorkerOptions& options) { options.train.checkpoint_rounds = 100; });  // not saved
  run.on_report = [&](const std::string&, const diloco::Progress& progress) {
    if (progress.phase() == "wait" && progress.step() == kSteps) us.kill();
  };
  us.start();
  us.expect_killed();
  run.on_report = nullptr;
  run.has_contribution = [](const diloco::AttachRequest& request) {
    return request.region == "us" && request.version == 0;
  };
  run.cut_off = [](const std::string& region, diloco::Round round,
                   int told) -> std::optional<diloco::Instruction> {
    if (region != "us" || round != 0 || told > 1) return {};
    if (told == 0) return diloco::Continue{0, 2, kSteps * 6, 0};
    return diloco::Collect{0};
  };
  run.listed = [](diloco::Round round) {
    return round == 0 ? Listing{{"eu"}, {"us"}, {"us", 0, 1}} : Listing{{"eu"}, {"us"}};
  };
  us.start();
  eu.start();
  EXPECT_EQ(us.finished().params_digest, eu.finished().params_digest);
  EXPECT_EQ(us.finished().progress.step(), kRounds * kSteps + 2);
}

TEST(RegionWorker, WhatFailsOnRankZeroAloneEndsAllRanksWithTheReason) {
  const TemporaryDirectory directory;
  FakeRun run({"us"}, kRounds, kSteps);
  run.listed = [](diloco::Round) { return Listing{{"eu"}}; };
  run.cut_off = [](const std::string&, diloco::Round, int) -> std::optional<diloco::Instruction> {
    throw std::runtime_error("nonsense from the coordinator");
  };
  RegionUnderTest us(run, directory, "us", 0, 1, 3);
  us.start();
  for (const std::uint32_t rank : {0, 1, 2}) {
    try {
      us.finished(rank);
      ADD_FAILURE() << "rank " << rank << " goes on";
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("nonsense from the coordinator"));
    }
  }
}

// ---- A disk that refuses ----

constexpr rlim_t kBytesForPayloads = 100000;  // they are files in memory; a state has more

TEST(RegionWorker, TrainsOnWhileItsDiskIsFullAndSavesWhenThereIsRoom) {
  for (const std::uint32_t world : {1, 2}) {
    const TemporaryDirectory directory;
    FakeRun run({"eu"}, kRounds, kSteps);
    RegionUnderTest eu(run, directory, "eu", 0, 1, world);
    const auto state = checkpoint_directory(directory.path() / "eu") / "state.safetensors";
    std::optional<test::FullDisk> full(kBytesForPayloads);
    run.on_report = [&](const std::string&, const diloco::Progress& progress) {
      if (!full || progress.round() < 2) return;
      EXPECT_FALSE(exists(state));
      EXPECT_FALSE(exists(snapshot_file(directory.path() / "eu")));
      full.reset();
    };
    eu.start();
    for (std::uint32_t rank = 0; rank < world; ++rank)
      EXPECT_EQ(eu.finished(rank).progress.round(), kRounds);
    EXPECT_FALSE(full);
    EXPECT_TRUE(exists(state));
    if (world > 1) continue;  // sums in another order
    EXPECT_EQ(eu.finished().params_digest, undisturbed_alone());
  }
}

TEST(RegionWorker, DoesNotEndWellBeforeItsLastStateIsOnDisk) {
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, kRounds, kSteps);
  RegionUnderTest eu(run, directory, "eu", 0, 1);
  {
    const test::FullDisk full(kBytesForPayloads);
    eu.start();
    try {
      eu.finished();
      ADD_FAILURE() << "its state is nowhere";
    } catch (const std::system_error& error) {
      EXPECT_TRUE(diloco::is_storage_failure(error)) << error.what();
    }
  }
  eu.start();  // there is room again
  EXPECT_EQ(eu.finished().params_digest, undisturbed_alone());
}

// ---- Cut off ----

constexpr std::uint64_t kAfterRound1 = 2 * kSteps * 6;  // a cursor

// us does this many steps more in round 1, in two orders, then contributes them.
void cut_off_in_round_1(FakeRun& run, std::uint32_t first, std::uint32_t second,
                        std::uint64_t cursor = kAfterRound1) {
  run.cut_off = [=](const std::string& region, diloco::Round round,
                    int told) -> std::optional<diloco::Instruction> {
    if (region != "us" || round != 1) return {};
    if (told == 0) return diloco::Continue{1, first, cursor, kSteps};
    if (told == 1) return diloco::Continue{1, second, cursor, kSteps};
    if (told == 2) return diloco::Collect{1};
    return {};
  };
  run.listed = [](diloco::Round round) {
    return round == 1 ? Listing{{"eu"}, {"us"}, {"us", 1, 1}} : Listing{{"eu"}, {"us"}};
  };
}

TEST(RegionWorker, TrainsOnWhileItIsCutOffAndContributesThatToo) {
  for (const std::uint32_t world : {1, 2, 3}) {
    const TemporaryDirectory directory;
    FakeRun run({"eu", "us"}, kRounds, kSteps);
    cut_off_in_round_1(run, 2, 3);
    RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2, world);
    eu.start();
    us.start();
    EXPECT_EQ(us.finished().progress.step(), kRounds * kSteps + 5);
    EXPECT_EQ(us.finished().progress.tokens(), (kRounds * kSteps + 5) * 6 * 8);
    EXPECT_EQ(us.finished().params_digest, eu.finished().params_digest);
    for (const diloco::Contribution& made : run.contributions()) {
      if (made.part == 0) continue;
      EXPECT_EQ(made.round, 1);
      EXPECT_EQ(made.steps, 5);
      EXPECT_EQ(made.tokens, 5 * 6 * 8);
      EXPECT_EQ(made.data_cursor, (2 * kSteps + 5) * 6);
      EXPECT_GT(made.compute_s, 0);
      EXPECT_GT(made.delta_norm, 0);
    }
    EXPECT_EQ(run.contributions().size(), 2 * kRounds + 1);
  }
}

// Its coordinator's disk was full when it contributed, say.
TEST(RegionWorker, CutOffItDoesNotReadSamplesAgainOfWhichItsCoordinatorDoesNotKnow) {
  const TemporaryDirectory directory;
  FakeRun run({"eu", "us"}, kRounds, kSteps);
  cut_off_in_round_1(run, 2, 3, kAfterRound1 / 2);
  RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2);
  eu.start();
  us.start();
  EXPECT_EQ(us.finished().params_digest, eu.finished().params_digest);
  int further = 0;
  for (const diloco::Contribution& made : run.contributions()) {
    if (made.part == 0) continue;
    EXPECT_EQ(made.data_begin, kAfterRound1);
    EXPECT_EQ(made.data_cursor, kAfterRound1 + 5 * 6);
    ++further;
  }
  EXPECT_EQ(further, 1);
}

TEST(RegionWorker, CalledBackItDropsWhatWasNotCollected) {
  for (const std::uint32_t world : {1, 2}) {
    const TemporaryDirectory directory;
    FakeRun run({"eu", "us"}, kRounds, kSteps);
    RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2, world);
    std::atomic<bool> decided = false, started = false;
    run.cut_off = [](const std::string& region, diloco::Round round,
                     int) -> std::optional<diloco::Instruction> {
      if (region != "us" || round != 0) return {};
      return diloco::Continue{0, 1'000'000, kSteps * 6, 0};
    };
    run.called_back = [&](const std::string&) { return decided.load(); };
    run.on_report = [&](const std::string& region, const diloco::Progress& progress) {
      if (region == "us" && progress.step() >= kSteps + 3 && !started.exchange(true)) eu.start();
      if (region == "eu" && progress.phase() == "apply") decided = true;
    };
    us.start();
    EXPECT_GE(us.finished().progress.step(), kRounds * kSteps + 3);
    EXPECT_EQ(us.finished().params_digest, eu.finished().params_digest);
    for (const diloco::Contribution& made : run.contributions()) {
      EXPECT_EQ(made.part, 0);
      EXPECT_EQ(made.steps, kSteps);
      EXPECT_EQ(made.data_cursor, (made.round + 1) * kSteps * 6)
          << "the samples of dropped steps are read again";
    }
  }
}

TEST(RegionWorker, InterruptedWhileItIsCutOffItLosesNothing) {
  std::vector<WorkerResult> ends;
  std::uint32_t before = 2;
  for (const bool interrupted : {true, false}) {
    const TemporaryDirectory directory;
    FakeRun run({"eu", "us"}, kRounds, kSteps);
    cut_off_in_round_1(run, before, 3);
    std::atomic<bool> stop = interrupted;
    RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2);
    run.on_report = [&](const std::string& region, const diloco::Progress& progress) {
      if (region == "us" && progress.step() == 2 * kSteps + 1 && stop.exchange(false))
        us.interrupt();
    };
    eu.start();
    us.start();
    if (interrupted) {
      us.expect_interrupted();
      us.interrupt(false);
      us.start();
    }
    ends.push_back(us.finished());
    EXPECT_EQ(eu.finished().params_digest, ends.back().params_digest);
    before = static_cast<std::uint32_t>(ends[0].progress.step() - kRounds * kSteps) - 3;
  }
  EXPECT_EQ(ends[0].params_digest, ends[1].params_digest);
  EXPECT_EQ(ends[0].progress.step(), ends[1].progress.step());
}

// ---- Numbers that are not finite ----

TEST(RegionWorker, SitsOutARoundThatWentToInfinityAndFollowsTheOthers) {
  for (const std::uint32_t world : {1, 2}) {
    const TemporaryDirectory directory;
    FakeRun run({"eu", "us"}, kRounds, 1);
    run.listed = [](diloco::Round) { return Listing{{"eu"}}; };
    RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2, world);
    us.set_all([](WorkerOptions& options) {
      options.inner.lr = 1e30F;
      options.inner.weight_decay = 1e30F;
    });
    eu.start();
    us.start();
    EXPECT_EQ(us.finished().params_digest, eu.finished().params_digest);
    for (const diloco::Contribution& made : run.contributions()) {
      EXPECT_EQ(made.sits_out, made.region == "us");
      EXPECT_EQ(made.payload.size_bytes == 0, made.sits_out);
    }
  }
}

TEST(RegionWorker, SitsOutARoundWhoseLossIsNotANumber) {
  const TemporaryDirectory directory;
  FakeRun run({"eu", "us"}, kRounds, kSteps);
  run.listed = [](diloco::Round) { return Listing{{"eu"}}; };
  RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2);
  us.set_all([](WorkerOptions& options) {
    options.inner.lr = 1e30F;
    options.inner.clip_norm = 0;
  });
  eu.start();
  us.start();
  EXPECT_EQ(us.finished().params_digest, eu.finished().params_digest);
  for (const diloco::Contribution& made : run.contributions()) {
    EXPECT_EQ(made.sits_out, made.region == "us");
  }
}

}  // namespace
}  // namespace causeway::intra
