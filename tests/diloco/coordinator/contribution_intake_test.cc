#include "diloco/coordinator/contribution_intake.h"

#include <gtest/gtest.h>

#include <span>

#include "diloco/files/sealed_bytes.h"
#include "diloco/ledger/ledger_files.h"
#include "tests/diloco/coordinator/lone_region.h"
#include "tests/support/captured_log.h"

namespace causeway::diloco {
namespace {

class ContributionIntakeTest : public ::testing::Test {
 protected:
  void begin(std::uint64_t spool_bytes = 0) {
    region_.emplace(spool_bytes);
    region_->begin();
    intake_.emplace(region_->context(), [this](bool stored) { answers_.push_back(stored); });
    intake_->begin_gathering();
  }
  static Descriptor file(std::size_t size_bytes) {
    const std::string content(size_bytes, 'p');
    return SealedBytes(std::as_bytes(std::span(content))).share();
  }
  void hand_over(std::size_t size_bytes) {
    intake_->take(region_->contribution(), file(size_bytes));
  }
  // Until what was handed over is in the spool, or is not.
  void copy() {
    bool copied = false;
    asio::co_spawn(region_->loop_, intake_->join(), [&](std::exception_ptr) { copied = true; });
    region_->loop_.restart();  // it may have run out of work before
    while (!copied && region_->loop_.run_one() > 0) {
    }
    ASSERT_TRUE(copied);
  }

  std::optional<testing::LoneRegion> region_;
  std::optional<ContributionIntake> intake_;
  std::vector<bool> answers_;
};

TEST_F(ContributionIntakeTest, StoresBeforeItAnswers) {
  begin();
  hand_over(1000);
  EXPECT_TRUE(answers_.empty());
  copy();
  EXPECT_EQ(answers_, std::vector{true});
  EXPECT_GE(region_->count<SaveContributions>(), 1);
  const auto& own = region_->driver_->protocol().contribution();
  ASSERT_TRUE(own);
  EXPECT_EQ(own->payload.size_bytes, 1000);
  EXPECT_TRUE(region_->directory_.spool().has(own->payload));
}

TEST_F(ContributionIntakeTest, WhatAnEarlierGatheringHandedOverIsDropped) {
  begin();
  hand_over(1000);
  intake_->begin_gathering();
  copy();
  EXPECT_TRUE(answers_.empty());
  EXPECT_FALSE(region_->driver_->protocol().contribution());
}

TEST_F(ContributionIntakeTest, TakesNothingAfterTheEnd) {
  begin();
  region_->ending_.finish({0, "done"});
  hand_over(1000);
  EXPECT_EQ(answers_, std::vector{false});
}

TEST_F(ContributionIntakeTest, WaitsForRoomAndTellsWhoeverAsks) {
  begin(100'000);
  const inter::BlobId large = region_->directory_.spool().put(std::vector<std::byte>(80'000));
  hand_over(50'000);
  copy();
  EXPECT_EQ(answers_, std::vector{false});
  ASSERT_TRUE(intake_->waits_for_room());
  EXPECT_EQ(intake_->waiting_for(), "");
  intake_->ask();
  EXPECT_NE(intake_->waiting_for().find("50000 bytes, and 20000 of 100000 are free"),
            std::string::npos);
  const std::size_t ordered = region_->count<OrderTrain>();
  region_->directory_.spool().remove(large);
  intake_->look_for_room();
  EXPECT_FALSE(intake_->waits_for_room());
  EXPECT_EQ(region_->count<OrderTrain>(), ordered + 1);  // the same round once more
}

TEST_F(ContributionIntakeTest, AWorkerThatWasLostDoesNotAskAnyMore) {
  begin(100'000);
  region_->directory_.spool().put(std::vector<std::byte>(80'000));
  hand_over(50'000);
  copy();
  intake_->ask();
  intake_->worker_lost();
  EXPECT_EQ(intake_->waiting_for(), "");
  EXPECT_FALSE(intake_->stop_waiting());
  EXPECT_FALSE(intake_->waits_for_room());
}

TEST_F(ContributionIntakeTest, OffersNoSnapshotOfAnotherStateThanItsWorkerHolds) {
  begin();
  region_->options_.wrong_snapshot = [](const std::filesystem::path&, const Digest& state) {
    return state == Digest{} ? "" : "holds another state";
  };
  const test::CapturedLog log;
  intake_->take_snapshot({.version = 0, .state = {1}}, file(2000));
  copy();
  EXPECT_TRUE(region_->directory_.spool().complete().empty());
  EXPECT_TRUE(log.has("checkpoints/snapshot.safetensors holds another state"));
  intake_->take_snapshot({}, file(2000));
  copy();
  EXPECT_EQ(region_->directory_.spool().complete().size(), 1);
}

TEST_F(ContributionIntakeTest, ASnapshotWaitsForRoom) {
  begin(100'000);
  inter::Spool& spool = region_->directory_.spool();
  const inter::BlobId large = spool.put(std::vector<std::byte>(99'000));
  const test::CapturedLog log;
  intake_->take_snapshot({.version = 3, .state = {3}}, file(3000));
  copy();
  intake_->look_for_room();
  copy();
  EXPECT_EQ(spool.complete().size(), 1);
  EXPECT_TRUE(log.has("its spool has no room for the snapshot of version 3 yet: 3000 bytes"));
  intake_->take_snapshot({.version = 6, .state = {6}}, file(2000));  // in its place
  copy();
  spool.remove(large);
  intake_->look_for_room();
  copy();
  intake_->look_for_room();
  copy();
  ASSERT_EQ(spool.complete().size(), 1);
  EXPECT_EQ(spool.complete().front().size_bytes, 2000);
}

TEST_F(ContributionIntakeTest, OffersASnapshotThatIsInTheSpool) {
  begin();
  intake_->take_snapshot({}, file(2000));
  copy();
  const auto blobs = region_->directory_.spool().complete();
  ASSERT_EQ(blobs.size(), 1);
  EXPECT_EQ(blobs.front().size_bytes, 2000);
}

// The others had the last version before this worker had written it: its coordinator closes
// already, and waits for it.
TEST_F(ContributionIntakeTest, KeepsTheSnapshotOfTheLastVersionAfterTheEnd) {
  begin();
  region_->ending_.finish({0, "the run is complete"});
  region_->ending_.close();
  intake_->take_snapshot({}, file(2000));
  copy();
  const auto kept = read_snapshot(region_->options_.directory / "ledger" / "snapshot");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->blob.size_bytes, 2000);
  EXPECT_TRUE(region_->directory_.spool().has(kept->blob));
}

TEST_F(ContributionIntakeTest, SaysThatTheSnapshotOfTheLastVersionDoesNotFit) {
  begin(100'000);
  inter::Spool& spool = region_->directory_.spool();
  const inter::BlobId large = spool.put(std::vector<std::byte>(99'000));
  region_->ending_.finish({0, "the run is complete"});
  region_->ending_.close();
  const test::CapturedLog log;
  intake_->take_snapshot({}, file(3000));
  copy();
  EXPECT_TRUE(
      log.has("the snapshot of the last version, 0, is not kept: its spool has no room for "
              "its 3000 bytes (sync.spool_gib). The one before stays"));
  EXPECT_FALSE(log.has("yet")) << "nobody waits for room any more";
  spool.remove(large);
  intake_->look_for_room();
  copy();
  EXPECT_TRUE(spool.complete().empty());
}

// A worker that was left behind may still write one on its way to the end.
TEST_F(ContributionIntakeTest, TakesNoOtherSnapshotThanTheLastAfterTheEnd) {
  begin();
  region_->ending_.finish({0, "the run is complete"});
  region_->ending_.close();
  intake_->take_snapshot({.version = 3}, file(2000));
  copy();
  EXPECT_TRUE(region_->directory_.spool().complete().empty());
}

TEST_F(ContributionIntakeTest, TakesNoSnapshotOnceItWasStopped) {
  begin();
  region_->ending_.finish({130, "interrupted"});
  region_->ending_.close();
  intake_->take_snapshot({}, file(2000));
  copy();
  EXPECT_TRUE(region_->directory_.spool().complete().empty());
}

}  // namespace
}  // namespace causeway::diloco
