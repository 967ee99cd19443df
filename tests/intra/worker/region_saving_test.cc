// What a region's worker has on disk, and when.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <atomic>
#include <future>
#include <map>

#include "intra/outer/state_file.h"
#include "tests/intra/worker/region_under_test.h"
#include "tests/support/captured_log.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;

void beside_steps(WorkerOptions& options) {
  options.train.saved_beside_steps_bytes = 0;
}

// Of the region's state and snapshot; a new file of the same name has another.
std::pair<ino_t, ino_t> inodes(const fs::path& region) {
  struct stat state {
  }, snapshot{};
  EXPECT_EQ(::stat(newest_state_file(region).c_str(), &state), 0);
  EXPECT_EQ(::stat(snapshot_file(region).c_str(), &snapshot), 0);
  return {state.st_ino, snapshot.st_ino};
}

TEST(RegionSaving, AtTheEndOnlyWhatIsNotOnDiskIsWritten) {
  for (const std::uint32_t checkpoint_rounds : {1, 2}) {  // the last of three is saved, or is not
    const TemporaryDirectory directory;
    FakeRun run({"eu"}, kRounds, kSteps);
    RegionUnderTest eu(run, directory, "eu", 0, 1);
    const fs::path region = eu.options().directory;
    eu.options().train.checkpoint_rounds = checkpoint_rounds;
    std::optional<std::pair<ino_t, ino_t>> before;
    run.on_report = [&](const std::string&, const diloco::Progress& progress) {
      if (!before && progress.phase() == "wait" && progress.round() == kRounds)
        before = inodes(region);
    };
    eu.start();
    eu.finished();
    ASSERT_TRUE(before);
    EXPECT_EQ(inodes(region).first == before->first, checkpoint_rounds == 1);
    EXPECT_EQ(inodes(region).second == before->second, checkpoint_rounds == 1);
    EXPECT_EQ(StateReader(newest_state_file(region)).get("version"), std::to_string(kRounds));
  }
}

TEST(RegionSaving, BesideStepsAContributionIsOnDiskBeforeAnybodyHasIt) {
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, kRounds, kSteps);
  RegionUnderTest eu(run, directory, "eu", 0, 1);
  eu.set_all(beside_steps);
  const fs::path region = eu.options().directory;
  int handed_over = 0;
  run.lose_after_contribution = [&](const diloco::Contribution& contribution) {
    const StateReader state(newest_state_file(region));
    EXPECT_EQ(state.get("version"), std::to_string(contribution.round));
    EXPECT_NE(state.get("in_flight"), "");
    ++handed_over;
    return false;
  };
  eu.start();
  EXPECT_EQ(eu.finished().params_digest, undisturbed_alone());
  EXPECT_EQ(handed_over, kRounds);
}

class KilledBesideASave : public testing::TestWithParam<std::uint64_t> {};

TEST_P(KilledBesideASave, EndsWithTheSameBits) {
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, kRounds, kSteps);
  RegionUnderTest eu(run, directory, "eu", 0, 1);
  eu.set_all(beside_steps);
  std::atomic<bool> killed = false;
  run.on_report = [&](const std::string&, const diloco::Progress& progress) {
    if (progress.step() == GetParam() && !killed.exchange(true)) eu.kill();
  };
  eu.start();
  eu.expect_killed();
  eu.start();
  EXPECT_EQ(eu.finished().params_digest, undisturbed_alone());
  EXPECT_EQ(eu.finished().progress.step(), kRounds * kSteps);
}

INSTANTIATE_TEST_SUITE_P(AtStep, KilledBesideASave, testing::Values(1, 4, 5, 8, 9, 11));

class InterruptedAhead : public testing::TestWithParam<std::uint64_t> {};

// Steps ahead come after the save of what was contributed, and before anything else is decided.
TEST_P(InterruptedAhead, ItsStepsSinceTheLastSaveAreSaved) {
  for (const std::uint64_t beside : {kSavedBesideStepsBytes, std::uint64_t{0}}) {
    const TemporaryDirectory directory;
    FakeRun run({"eu"}, kRounds, kSteps);
    run.ahead = 2;
    RegionUnderTest eu(run, directory, "eu", 0, 1);
    eu.options().train.saved_beside_steps_bytes = beside;
    eu.options().overlap.variant = diloco::OverlapOptions::Variant::eager;
    std::uint64_t stopped = 0;
    run.on_report = [&](const std::string&, const diloco::Progress& progress) {
      stopped = std::max<std::uint64_t>(stopped, progress.step());
      if (progress.step() == GetParam()) eu.interrupt();
    };
    eu.start();
    eu.expect_interrupted();
    run.on_report = [&](const std::string&, const diloco::Progress& progress) {
      EXPECT_GE(progress.step(), stopped) << "no step is taken twice";
    };
    eu.interrupt(false);
    eu.start();
    EXPECT_EQ(eu.finished().progress.round(), kRounds);
  }
}

INSTANTIATE_TEST_SUITE_P(AtStep, InterruptedAhead, testing::Values(4, 5, 6, 9, 10));

// The first rank waits for what it saves; the others, for the first.
TEST(RegionSaving, BesideStepsRanksThatShareTheMomentsEndWithTheSameBits) {
  std::map<bool, std::string> digests;
  for (const bool beside : {false, true}) {
    const TemporaryDirectory directory;
    FakeRun run({"eu"}, kRounds, kSteps);
    RegionUnderTest eu(run, directory, "eu", 0, 1, 2);
    eu.set_all([](WorkerOptions& options) { options.train.shard_optimizer = true; });
    if (beside) eu.set_all(beside_steps);
    eu.start();
    digests[beside] = eu.finished().params_digest;
    EXPECT_EQ(eu.finished(1).params_digest, digests[beside]);
    EXPECT_GT(eu.finished().progress.save_s(), 0);
  }
  EXPECT_EQ(digests[true], digests[false]);
}

// As another writer has it, for whom saves wait.
class DiskOfAnother {
 public:
  explicit DiskOfAnother(const fs::path& region) {
    const fs::path checkpoints = checkpoint_directory(region);
    fs::create_directories(checkpoints);
    held_ = diloco::Descriptor(::open(checkpoints.c_str(), O_RDONLY | O_DIRECTORY));
    EXPECT_EQ(::flock(held_.get(), LOCK_EX), 0);
  }
  void free() { held_ = diloco::Descriptor(); }
  bool is_free() const { return held_.get() == diloco::Descriptor().get(); }

 private:
  diloco::Descriptor held_;
};

constexpr std::chrono::milliseconds kRankDeadline{1000};

// Of a region, which save beside steps.
struct TwoRanks : RegionUnderTest {
  TwoRanks(FakeRun& run, const TemporaryDirectory& directory, std::uint32_t checkpoint_rounds)
      : RegionUnderTest(run, directory, "eu", 0, 1, 2) {
    set_all(beside_steps);
    set_all([&](WorkerOptions& options) {
      options.train.rank_deadline = kRankDeadline;
      options.train.checkpoint_rounds = checkpoint_rounds;
    });
  }
};

// For longer than ranks wait for one that says nothing; and the coordinator hears that it lives.
void expect_that_a_slow_disk_costs_no_rank(std::uint32_t checkpoint_rounds) {
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, kRounds, kSteps);
  TwoRanks eu(run, directory, checkpoint_rounds);
  DiskOfAnother disk(eu.options().directory);
  int words = 0;  // one after the other that say the same
  std::pair<std::uint64_t, std::string> said;
  run.on_report = [&](const std::string&, const diloco::Progress& progress) {
    const std::pair now{progress.round(), progress.phase()};
    words = now == std::exchange(said, now) ? words + 1 : 0;
    if (words == 60) disk.free();
  };
  const test::CapturedLog log;
  eu.start();
  EXPECT_EQ(eu.finished().progress.round(), kRounds);
  EXPECT_EQ(eu.finished(1).progress.round(), kRounds);
  EXPECT_TRUE(disk.is_free()) << "nobody waited for it";
  EXPECT_FALSE(log.has("attaches again")) << log.text();
}

TEST(RegionSaving, ASlowDiskAtTheEndCostsNoRank) {
  expect_that_a_slow_disk_costs_no_rank(100);
}

// One save waits for the one before.
TEST(RegionSaving, ASlowDiskInBetweenCostsNoRank) {
  expect_that_a_slow_disk_costs_no_rank(1);
}

// The parameters wait to be read while a step would change them, in which nobody reports.
TEST(RegionSaving, ASlowDiskDuringAStepCostsNoRank) {
  const TemporaryDirectory directory;
  FakeRun run({"eu"}, kRounds, kSteps);
  TwoRanks eu(run, directory, 2);
  DiskOfAnother disk(eu.options().directory);
  std::promise<void> saved;  // after the second round
  run.on_report = [&, told = false](const std::string&, const diloco::Progress& progress) mutable {
    if (progress.round() == 2 && !std::exchange(told, true)) saved.set_value();
  };
  const test::CapturedLog log;
  eu.start();
  ASSERT_EQ(saved.get_future().wait_for(std::chrono::minutes{1}), std::future_status::ready);
  std::promise<void> nothing;
  nothing.get_future().wait_for(3 * kRankDeadline);  // longer than ranks wait for each other
  EXPECT_FALSE(log.has("attaches again")) << log.text();
  disk.free();
  EXPECT_EQ(eu.finished().progress.round(), kRounds);
  EXPECT_EQ(eu.finished(1).progress.round(), kRounds);
  EXPECT_GT(eu.finished(1).progress.save_s(), 1) << "it did not wait";
  EXPECT_FALSE(log.has("attaches again")) << log.text();
}

}  // namespace
}  // namespace causeway::intra
