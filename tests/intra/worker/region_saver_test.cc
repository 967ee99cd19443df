#include "intra/worker/region_saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "diloco/files/archive.h"
#include "intra/collective/collective.h"
#include "intra/outer/outer_spans.h"
#include "tests/intra/worker/mock_session.h"
#include "tests/support/process_limits.h"
#include "tests/support/temporary_directory.h"

namespace causeway::intra {
namespace {

using testing::_;
using testing::NiceMock;
using testing::ReturnRef;
using What = RegionSaver::What;

// Saves nothing beside the next steps, or everything.
constexpr std::uint64_t kAtOnce = ~std::uint64_t{0}, kBesideSteps = 0;

// A group of one that takes it for another rank than the first.
class OtherRank final : public ForwardingCollective {
 public:
  OtherRank() : OtherRank(make_solo_collective()) {}
  std::size_t rank() const override { return 1; }

 private:
  explicit OtherRank(std::unique_ptr<Collective> group)
      : ForwardingCollective(*group), group_(std::move(group)) {}
  std::unique_ptr<Collective> group_;
};

// Notes what it is asked.
class SavedTrainer final : public RoundTrainer {
 public:
  SavedTrainer(const diloco::Layout& layout, OuterState& state)
      : layout_(layout), state_(state), spans_(layout, state) {}

  OuterSpans& spans() override { return spans_; }
  OuterRound::Batch batch() const override { return {}; }
  void enter(const std::string&) override {}
  void report() override { ++reports_; }
  void waiting(const std::string&) override {}
  void count_up_to(std::uint64_t) override {}
  void sat_out(const std::string&, std::uint32_t) override {}
  void start_afresh() override {}
  void settle_state() override { ++settled_; }
  StateImage image() override { return image_of(state_, layout_, {}, {}); }
  void hold_back_steps(const std::function<void()>& read) override { read_.push_back(read); }
  void checkpointed() override { ++checkpoints_; }
  void stop() override { throw std::logic_error("nobody stops it"); }

  std::atomic<int> reports_ = 0;
  int settled_ = 0, checkpoints_ = 0;
  std::vector<std::function<void()>> read_;  // what steps are to wait for

 private:
  const diloco::Layout& layout_;
  OuterState& state_;
  HostSpans spans_;
};

class RegionSaverTest : public testing::Test {
 protected:
  RegionSaverTest() {
    std::iota(state_.anchor.begin(), state_.anchor.end(), 1.0F);
    state_.version = 7;
    state_.digest = whole_digest(state_);
  }
  void begin(std::uint64_t beside_steps_bytes, bool leads = true) {
    gathering_.emplace(
        diloco::AttachRequest{},
        [this](const diloco::AttachRequest&, const KeepWaiting&) {
          auto session = std::make_unique<NiceMock<MockSession>>();
          session_ = session.get();
          ON_CALL(*session, attachment).WillByDefault(ReturnRef(attachment_));
          ON_CALL(*session, offer_snapshot)
              .WillByDefault([this](diloco::Round version, const diloco::Digest& state,
                                    const std::filesystem::path& file) {
                EXPECT_EQ(state, state_.digest);
                EXPECT_EQ(wrong_snapshot(file, state), "");
                offered_.push_back(version);
              });
          return session;
        },
        [leads](const diloco::Attachment&, const std::function<bool()>&) {
          return leads ? make_solo_collective() : std::make_unique<OtherRank>();
        },
        [] { return false; });
    saver_.emplace(
        StateSaver::Place{.directory = directory_.path(), .beside_steps_bytes = beside_steps_bytes},
        state_, trainer_);
    saver_->join(*gathering_, layout_);
  }
  bool has_state() const { return exists(newest_state_file(directory_.path())); }
  bool has_snapshot() const { return exists(snapshot_file(directory_.path())); }

  const test::TemporaryDirectory directory_{test::in_memory()};
  const diloco::Layout layout_{{{"weight", {64, 64}}}};
  OuterState state_{layout_};
  SavedTrainer trainer_{layout_, state_};
  diloco::Attachment attachment_;
  MockSession* session_ = nullptr;
  std::vector<diloco::Round> offered_;  // to the coordinator
  std::optional<Gathering> gathering_;
  std::optional<RegionSaver> saver_;
};

TEST_F(RegionSaverTest, OffersASnapshotOnceItIsOnDiskAndOnlyThen) {
  begin(kAtOnce);
  saver_->save(What::state, Refusal::throws);
  EXPECT_TRUE(has_state());
  EXPECT_FALSE(has_snapshot());
  EXPECT_EQ(offered_, std::vector<diloco::Round>{});
  EXPECT_EQ(state_.on_disk, 7U);
  saver_->save(What::state_and_snapshot, Refusal::throws);
  EXPECT_EQ(offered_, std::vector<diloco::Round>{7});
  EXPECT_EQ(trainer_.settled_, 2);
  EXPECT_EQ(trainer_.checkpoints_, 1);
  EXPECT_GT(saver_->seconds(), 0);
}

TEST_F(RegionSaverTest, OffersTheSameSnapshotOnce) {
  begin(kAtOnce);
  for (int i = 0; i < 2; ++i) saver_->save(What::state_and_snapshot, Refusal::throws);
  EXPECT_EQ(offered_, std::vector<diloco::Round>{7});
  state_.version = 8;
  saver_->changed();
  saver_->save(What::state_and_snapshot, Refusal::throws);
  EXPECT_EQ(offered_, (std::vector<diloco::Round>{7, 8}));
}

// What the run begins with: there is no state yet that leads on from it.
TEST_F(RegionSaverTest, OffersASnapshotWithoutItsState) {
  begin(kAtOnce);
  saver_->save(What::snapshot, Refusal::throws);
  EXPECT_EQ(offered_, std::vector<diloco::Round>{7});
  EXPECT_FALSE(has_state());
  EXPECT_FALSE(state_.on_disk);
  EXPECT_EQ(trainer_.settled_, 0);
  EXPECT_EQ(trainer_.checkpoints_, 0);
}

TEST_F(RegionSaverTest, OffersNothingThatTheDiskRefused) {
  begin(kAtOnce);
  const test::FullDisk full(10);
  saver_->save(What::state_and_snapshot, Refusal::trains_on);
  EXPECT_EQ(offered_, std::vector<diloco::Round>{});
  EXPECT_FALSE(state_.on_disk);
  EXPECT_THROW(saver_->save(What::state_and_snapshot, Refusal::throws), std::system_error);
}

TEST_F(RegionSaverTest, ASaveBesideStepsHoldsThemBackUntilItsSpansAreRead) {
  begin(kBesideSteps);
  saver_->save(What::state_and_snapshot, Refusal::trains_on);
  ASSERT_EQ(trainer_.read_.size(), 1U);
  trainer_.read_.front()();
  saver_->await_spans();
  saver_->await_save();
  EXPECT_FALSE(saver_->under_way());
  EXPECT_EQ(offered_, std::vector<diloco::Round>{7});
  EXPECT_GT(trainer_.reports_, 0) << "the coordinator hears nothing while the disk is slow";
}

TEST_F(RegionSaverTest, ASaveThatMustNotFailIsWaitedFor) {
  begin(kBesideSteps);
  saver_->save(What::state, Refusal::throws);
  EXPECT_FALSE(saver_->under_way());
  EXPECT_TRUE(has_state());
  EXPECT_TRUE(trainer_.read_.empty());
}

TEST_F(RegionSaverTest, WhoLooksNotesASaveThatIsOver) {
  begin(kBesideSteps);
  saver_->save(What::state_and_snapshot, Refusal::trains_on);
  while (saver_->under_way()) {
    saver_->look();
    std::this_thread::yield();
  }
  EXPECT_EQ(offered_, std::vector<diloco::Round>{7});
}

TEST_F(RegionSaverTest, WhoLeavesWaitsForASaveUnderWay) {
  begin(kBesideSteps);
  saver_->save(What::state_and_snapshot, Refusal::trains_on);
  saver_->leave();
  EXPECT_FALSE(saver_->under_way());
  EXPECT_EQ(offered_, std::vector<diloco::Round>{7});
}

TEST_F(RegionSaverTest, AllHearOfASaveThatFailedWhenTheyNextAsk) {
  begin(kBesideSteps);
  std::ofstream(checkpoint_directory(directory_.path())) << "where a directory is to be";
  saver_->save(What::state, Refusal::trains_on);
  EXPECT_NO_THROW(saver_->leave());
  EXPECT_CALL(*session_, next).Times(0);
  EXPECT_THROW(gathering_->next({}), std::filesystem::filesystem_error);
}

// Between two gatherings another process may have written.
TEST_F(RegionSaverTest, WhoJoinsAnewReliesOnNothingThatIsOnDisk) {
  begin(kAtOnce);
  saver_->save(What::state_and_snapshot, Refusal::throws);
  saver_->leave();
  std::ofstream(snapshot_file(directory_.path())) << "something else";
  saver_->join(*gathering_, layout_);
  saver_->save(What::state_and_snapshot, Refusal::throws);
  EXPECT_EQ(wrong_snapshot(snapshot_file(directory_.path()), state_.digest), "");
}

// ---- A coordinator that may have been killed ----

TEST_F(RegionSaverTest, OffersAgainWhatIsAsNewAsTheCoordinatorWants) {
  begin(kAtOnce);
  saver_->save(What::state_and_snapshot, Refusal::throws);
  for (const auto& [from, times] : {std::pair{0, 1}, {8, 1}, {7, 2}, {3, 3}}) {
    attachment_.snapshot_from = static_cast<diloco::Round>(from);
    saver_->offer_again();
    EXPECT_EQ(offered_.size(), times) << from;
  }
}

TEST_F(RegionSaverTest, OffersNothingAgainOfARunThatWentBack) {
  begin(kAtOnce);
  saver_->save(What::state_and_snapshot, Refusal::throws);
  std::ofstream(snapshot_file(directory_.path())) << "of what was taken back";
  saver_->forget_saved();
  attachment_.snapshot_from = 1;
  saver_->offer_again();
  EXPECT_EQ(offered_.size(), 1U);
  saver_->save(What::state_and_snapshot, Refusal::throws);
  EXPECT_EQ(offered_.size(), 2U) << "it is written anew";
}

// ---- More ranks ----

TEST_F(RegionSaverTest, AnotherRankWritesNothing) {
  begin(kAtOnce, false);
  saver_->save(What::state_and_snapshot, Refusal::throws);
  EXPECT_EQ(trainer_.settled_, 1) << "all ranks settle it together";
  EXPECT_FALSE(has_state() || has_snapshot());
  EXPECT_FALSE(state_.on_disk);
  EXPECT_EQ(trainer_.checkpoints_, 0);
  saver_->write_on_first_rank("saving to disk", [] { ADD_FAILURE() << "it is not the first"; });
}

TEST_F(RegionSaverTest, TheFirstRankWritesInAThreadOfItsOwnAndReportsMeanwhile) {
  begin(kAtOnce);
  std::thread::id writer;
  saver_->write_on_first_rank("saving to disk", [&] {
    writer = std::this_thread::get_id();
    while (trainer_.reports_ == 0) std::this_thread::yield();
  });
  EXPECT_NE(writer, std::this_thread::get_id());
  const auto fail = [] { throw std::system_error(std::make_error_code(std::errc::io_error)); };
  EXPECT_THROW(saver_->write_on_first_rank("saving to disk", fail), std::system_error);
}

// ---- For replays ----

TEST_F(RegionSaverTest, ArchivesAStateOnceWhereAllIsKept) {
  begin(kAtOnce);
  const std::filesystem::path file = diloco::archived_state(directory_.path(), 7);
  saver_->archive_state();
  EXPECT_FALSE(exists(file)) << "nothing is kept";
  diloco::open_archive(directory_.path(), "");
  saver_->archive_state();
  EXPECT_EQ(wrong_snapshot(file, state_.digest), "");
  const auto written = last_write_time(file);
  saver_->archive_state();
  EXPECT_EQ(last_write_time(file), written);
}

}  // namespace
}  // namespace causeway::intra
