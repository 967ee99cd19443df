#include "intra/worker/state_saver.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <numeric>

#include "intra/step/training_state.h"
#include "tests/intra/temporary_directory.h"
#include "tests/support/process_limits.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kAlways = 0, kNever = ~std::uint64_t{0};
constexpr std::chrono::milliseconds kOften{1};

// 16 MiB each span, so that a save takes a while.
const diloco::Layout& saved_layout() {
  static const diloco::Layout large({{"a", {2048, 2048}}});
  return large;
}

// A new file of the same name has another.
ino_t inode(const fs::path& file) {
  struct stat status {};
  EXPECT_EQ(::stat(file.c_str(), &status), 0) << file;
  return status.st_ino;
}

class StateSaverTest : public testing::Test {
 protected:
  StateSaverTest() : state_({}, saved_layout()) {
    float next = 1;
    for (const std::span<float> span : spans()) std::iota(span.begin(), span.end(), next++);
    state_.version = 7;
    state_.digest = whole_digest(state_);
  }

  std::vector<std::span<float>> spans() {
    return {state_.params,
            state_.optimizer.first_moment(),
            state_.optimizer.second_moment(),
            state_.residual,
            state_.anchor,
            state_.momentum};
  }

  std::optional<StateSaver::Saved> save(StateSaver& saver, Refusal refusal = Refusal::trains_on,
                                        bool offers = true) {
    return saver.save(image_of(saved_layout(), state_), snapshot_of(state_, saved_layout()), offers,
                      refusal);
  }

  // Of state and snapshot.
  std::pair<ino_t, ino_t> files() const {
    return {inode(newest_state_file(directory_.path())), inode(snapshot_file(directory_.path()))};
  }
  fs::path outer() const { return open_state(newest_state_file(directory_.path())).outer.file(); }

  StateSaver saver(std::uint64_t beside_steps_bytes) const {
    return StateSaver({.directory = directory_.path(), .beside_steps_bytes = beside_steps_bytes});
  }

  TemporaryDirectory directory_;
  TrainingState state_;
};

TEST_F(StateSaverTest, WritesOnceWhatDoesNotChange) {
  StateSaver at_once = saver(kNever);
  ASSERT_TRUE(save(at_once)->state);
  const auto first = files();
  state_.spent.wait_s += 1;  // a clock
  const auto again = save(at_once, Refusal::throws);
  EXPECT_TRUE(again->state && again->snapshot) << "they are on disk";
  EXPECT_EQ(files(), first);
}

TEST_F(StateSaverTest, WritesAgainWhatChangedOrIsGone) {
  StateSaver at_once = saver(kNever);
  save(at_once);
  const auto first = files();
  at_once.changed();
  save(at_once);
  EXPECT_NE(files().first, first.first);
  EXPECT_EQ(files().second, first.second) << "the snapshot is of the same version";

  state_.anchor[0] = -1;
  state_.digest = whole_digest(state_);
  at_once.changed();
  save(at_once);
  EXPECT_NE(files().second, first.second) << "of other bits";
  TrainingState loaded({}, saved_layout());
  ASSERT_TRUE(load_state(directory_.path(), saved_layout(), loaded));
  EXPECT_EQ(loaded.anchor, state_.anchor);

  fs::remove(newest_state_file(directory_.path()));
  fs::remove(snapshot_file(directory_.path()));
  save(at_once);
  EXPECT_TRUE(fs::exists(newest_state_file(directory_.path())));
  EXPECT_TRUE(fs::exists(snapshot_file(directory_.path())));
}

TEST_F(StateSaverTest, WritesAnchorAndMomentumOnceAVersion) {
  StateSaver at_once = saver(kNever);
  save(at_once);
  const ino_t first = inode(outer());
  EXPECT_EQ(files().second, first) << "the snapshot is another name of it";
  at_once.changed();
  state_.residual[0] = -1;  // as a contribution does
  save(at_once, Refusal::trains_on, false);
  EXPECT_EQ(inode(outer()), first);
  EXPECT_EQ(files().second, first);
  StateSaver restarted = saver(kNever);  // cannot know whether what is there is whole
  save(restarted, Refusal::trains_on, false);
  EXPECT_NE(inode(outer()), first);
  EXPECT_EQ(files().second, first) << "others may read it still";
  fs::remove(outer());
  save(restarted);  // although nothing changed
  EXPECT_EQ(files().second, inode(outer()));
  const ino_t second = inode(outer());
  restarted.forget_saved();  // as it was found to be damaged
  save(restarted);
  EXPECT_NE(inode(outer()), second);
  EXPECT_EQ(files().second, inode(outer()));
  TrainingState loaded({}, saved_layout());
  ASSERT_TRUE(load_state(directory_.path(), saved_layout(), loaded));
  EXPECT_EQ(loaded.residual, state_.residual);
  EXPECT_EQ(loaded.momentum, state_.momentum);
}

// What a run begins with is offered before there is a state that names it.
TEST_F(StateSaverTest, ASnapshotAloneIsWrittenOnceAsWell) {
  StateSaver at_once = saver(kNever);
  const auto saved =
      at_once.save(std::nullopt, snapshot_of(state_, saved_layout()), true, Refusal::throws);
  EXPECT_TRUE(saved->snapshot);
  EXPECT_FALSE(saved->state);
  EXPECT_EQ(wrong_snapshot(snapshot_file(directory_.path()), state_.digest), "");
  const ino_t first = inode(snapshot_file(directory_.path()));
  save(at_once);
  EXPECT_EQ(inode(outer()), first);
  EXPECT_EQ(files().second, first);
}

TEST_F(StateSaverTest, ADiskThatRefusedIsAskedAgain) {
  for (const std::uint64_t beside_steps_bytes : {kNever, kAlways}) {
    StateSaver refused = saver(beside_steps_bytes);
    {
      const test::FullDisk full(100000);
      const auto saved = save(refused);
      EXPECT_EQ(saved.has_value(), beside_steps_bytes == kNever);
      const StateSaver::Saved result = saved ? *saved : refused.finish();
      EXPECT_FALSE(result.state || result.snapshot);
      const auto save_or_throw = [&] {
        if (!save(refused, Refusal::throws)) refused.finish();
      };
      EXPECT_THROW(save_or_throw(), std::system_error);
    }
    EXPECT_FALSE(fs::exists(newest_state_file(directory_.path())));
    if (!save(refused, Refusal::throws)) refused.finish();
    EXPECT_TRUE(fs::exists(newest_state_file(directory_.path())));
    fs::remove_all(checkpoint_directory(directory_.path()));
  }
}

// Whoever waits may change spans; what is saved is as it was.
TEST_F(StateSaverTest, BesideStepsItHoldsTheStateAsItWasWhenItBegan) {
  StateSaver beside = saver(kAlways);
  const TrainingState before = state_;
  ASSERT_FALSE(save(beside)) << "it goes on";
  state_.work.steps = 3;
  while (!beside.stepped_is_read(kOften)) continue;
  for (const std::size_t stepped : {0, 1, 2}) std::ranges::fill(spans()[stepped], -1.0F);
  while (!beside.all_is_read(kOften)) continue;
  for (const std::size_t other : {3, 4, 5}) std::ranges::fill(spans()[other], -1.0F);
  const StateSaver::Saved saved = beside.finish();
  EXPECT_TRUE(saved.state && saved.snapshot);
  EXPECT_FALSE(beside.under_way());
  TrainingState loaded({}, saved_layout());
  ASSERT_TRUE(load_state(directory_.path(), saved_layout(), loaded));
  EXPECT_EQ(loaded.work.steps, 0);
  EXPECT_EQ(loaded.params, before.params);
  EXPECT_EQ(loaded.residual, before.residual);
  EXPECT_EQ(loaded.anchor, before.anchor);
  EXPECT_EQ(wrong_snapshot(snapshot_file(directory_.path()), before.digest), "");
}

// A rank that the others went on without is not at its end yet.
TEST_F(StateSaverTest, BesideStepsItWaitsForAnotherProcessThatWrites) {
  StateSaver beside = saver(kAlways);
  const fs::path directory = checkpoint_directory(directory_.path());
  fs::create_directories(directory);
  diloco::Descriptor other(::open(directory.c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(::flock(other.get(), LOCK_EX), 0);
  ASSERT_FALSE(save(beside));
  const TemporaryDirectory elsewhere;  // as long as it would take
  save_state(elsewhere.path(), saved_layout(), state_);
  EXPECT_FALSE(fs::exists(newest_state_file(directory_.path())));
  ASSERT_EQ(::flock(other.get(), LOCK_UN), 0);
  EXPECT_TRUE(beside.finish().state);
}

}  // namespace
}  // namespace causeway::intra
