// A region whose ranks die, hang and come back: the others go on without them, and nothing that was
// done is lost or counted twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/intra/worker/region_under_test.h"

namespace causeway::intra {
namespace {

constexpr std::uint32_t kRanks = 3;
constexpr std::uint64_t kBatch = 6;

class Degraded : public testing::Test {
 protected:
  Degraded() : run_({"eu", "us"}, kRounds, kSteps) {
    us_.emplace(run_, directory_, "us", 1, 2, kRanks);
  }

  // `ranks` of us die when it has taken `step` steps; the others are to go on.
  void lose(std::set<std::uint32_t> ranks, std::uint64_t step) {
    run_.on_report = [this, ranks, step](const std::string& region,
                                         const diloco::Progress& progress) {
      if (region != "us" || progress.step() != step || lost_.exchange(true)) return;
      std::set<std::uint32_t> left;
      for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
        if (!ranks.contains(rank)) left.insert(rank);
      }
      run_.expect_ranks("us", left);
      for (const std::uint32_t rank : ranks) us_->kill(rank);
    };
  }

  // The samples that us read, as its contributions say: each once, in order.
  void expect_no_sample_lost_or_read_twice() {
    std::uint64_t cursor = 0;
    for (const diloco::Contribution& made : run_.contributions()) {
      if (made.region != "us" || made.data_cursor == cursor) continue;  // sent again
      EXPECT_EQ(made.data_begin, cursor);
      EXPECT_EQ(made.data_cursor - made.data_begin, made.steps * kBatch);
      cursor = made.data_cursor;
    }
    EXPECT_EQ(cursor, kRounds * kSteps * kBatch);
  }

  TemporaryDirectory directory_;
  FakeRun run_;
  RegionUnderTest eu_{run_, directory_, "eu", 0, 2};
  std::optional<RegionUnderTest> us_;
  std::atomic<bool> lost_ = false;
};

struct Loss {
  std::set<std::uint32_t> ranks;
  std::uint64_t step;
};

class LosesRanks : public Degraded, public testing::WithParamInterface<Loss> {};

TEST_P(LosesRanks, AndTheOthersEndTheRunWithTheSameBitsAsTheOtherRegion) {
  lose(GetParam().ranks, GetParam().step);
  eu_.start();
  us_->start();
  for (const std::uint32_t rank : GetParam().ranks) us_->expect_killed(rank);
  const std::string expected = eu_.finished().params_digest;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    if (GetParam().ranks.contains(rank)) continue;
    EXPECT_EQ(us_->finished(rank).params_digest, expected);
    EXPECT_EQ(us_->finished(rank).progress.step(), kRounds * kSteps)
        << "no step is lost or taken twice";
  }
  expect_no_sample_lost_or_read_twice();
}

INSTANTIATE_TEST_SUITE_P(AtStep, LosesRanks,
                         testing::Values(Loss{{1}, 0}, Loss{{2}, kSteps + 2}, Loss{{0}, kSteps + 1},
                                         Loss{{0, 2}, kSteps}, Loss{{0, 1}, 2 * kSteps - 1}));

TEST_F(Degraded, ARankThatComesBackIsTakenIn) {
  lose({1}, kSteps + 1);
  eu_.start();
  us_->start();
  us_->expect_killed(1);
  run_.expect_ranks("us", {0, 1, 2});
  us_->start(1);
  const std::string expected = eu_.finished().params_digest;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(us_->finished(rank).params_digest, expected);
  EXPECT_EQ(us_->finished(0).progress.step(), kRounds * kSteps);
  expect_no_sample_lost_or_read_twice();
}

// For want of memory, say. What is gained each time is progress.
TEST(DegradedAgainAndAgain, ARankThatDiesEverySecondStepEndsNoOther) {
  constexpr std::uint32_t kK = 24;
  const TemporaryDirectory directory;
  FakeRun run({"us"}, 1, kK);
  RegionUnderTest us(run, directory, "us", 0, 1, 2);
  us.set_all([](WorkerOptions& options) { options.train.k = options.train.steps = kK; });
  std::atomic<std::uint64_t> killed_at = 0;
  run.on_report = [&](const std::string&, const diloco::Progress& progress) {
    const std::uint64_t step = progress.step();
    if (step % 2 == 1 || step == kK || step <= killed_at) return;
    killed_at = step;
    us.kill(1);
  };
  us.start();
  for (std::uint32_t death = 1; death < kK / 2; ++death) {
    us.expect_killed(1);
    us.start(1);
  }
  EXPECT_EQ(us.finished(0).progress.step(), kK);
  EXPECT_EQ(us.finished(1).progress.step(), kK);
}

TEST_F(Degraded, WithMomentsSharedOutItGoesBackToItsLastCheckpoint) {
  us_->set_all([](WorkerOptions& options) { options.train.shard_optimizer = true; });
  lose({1}, kSteps + 2);
  eu_.start();
  us_->start();
  us_->expect_killed(1);
  EXPECT_EQ(us_->finished(0).params_digest, eu_.finished().params_digest);
  EXPECT_EQ(us_->finished(2).params_digest, eu_.finished().params_digest);
  EXPECT_EQ(us_->finished(0).progress.step(), kRounds * kSteps);
  expect_no_sample_lost_or_read_twice();
}

// A whole run on fewer ranks differs from one on all of them only by the order of sums.
TEST_F(Degraded, TheMeanIsOverTheSameBatch) {
  eu_.start();
  us_->start();
  const double whole = us_->finished().val_loss().value();
  const TemporaryDirectory other;
  FakeRun run({"eu", "us"}, kRounds, kSteps);
  RegionUnderTest eu(run, other, "eu", 0, 2), us(run, other, "us", 1, 2, kRanks);
  run.expect_ranks("us", {1, 2});
  eu.start();
  us.start(1);
  us.start(2);
  EXPECT_NEAR(*us.finished(1).val_loss(), whole, 1e-3);
}

}  // namespace
}  // namespace causeway::intra
