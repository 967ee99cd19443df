// A region that goes on from a peer's snapshot, which takes longer to arrive than the run takes for
// the next ones.
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diloco/region/region.h"
#include "diloco/round/catch_up.h"
#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

constexpr Round kVersion = 6;

inter::BlobId payload_of_round(Round round) {
  return {.hash = {static_cast<std::uint8_t>(round + 1)}, .size_bytes = 100};
}

PersistentState state_behind() {
  return state_of_a({"a", "b", "c"}, kVersion, [](Round round) {
    return std::vector<Participant>{
        {.region = "b", .round = round, .weight = 1, .payload = payload_of_round(round)}};
  });
}

Snapshot snapshot_of(Round version) {
  return {.version = version,
          .state = {},
          .blob = {.hash = {static_cast<std::uint8_t>(100 + version)}, .size_bytes = 500}};
}

// Region a, whose worker holds version 0, and b, which let go of the payloads of the first rounds.
class Leap : public ::testing::Test {
 protected:
  Leap() {
    region_.agreement.start(Time{0});
    region_.worker.attach({}, std::nullopt);
    region_.peers.set_up("b", "b's disk");
  }
  // b keeps these, and what follows the first.
  void hear_of(const std::vector<Snapshot>& older, const Snapshot& newest) {
    Status status;
    status.version = kVersion;
    status.payloads_from = older.empty() ? newest.version : older.front().version;
    status.snapshot = newest;
    status.older = older;
    region_.peers.hear("b", status);
    catch_up_.choose_target();
  }
  // b has every payload.
  void hear_that_all_is_kept() {
    Status status;
    status.version = kVersion;
    region_.peers.hear("b", status);
    catch_up_.choose_target();
  }
  std::vector<inter::BlobId> asked() {
    catch_up_.fetch(Time{0});
    std::vector<inter::BlobId> blobs;
    for (const Action& action : region_.out.take())
      if (const auto* fetch = std::get_if<FetchBlob>(&action)) blobs.push_back(fetch->blob);
    return blobs;
  }
  std::vector<std::string> notes() {
    std::vector<std::string> texts;
    for (const Action& action : region_.out.take())
      if (const auto* note = std::get_if<Note>(&action)) texts.push_back(note->text);
    return texts;
  }

  Region region_{options_of_a(), state_behind()};
  CatchUp catch_up_{region_};
};

TEST_F(Leap, StaysWithASnapshotThatAPeerKeepsForIt) {
  hear_of({}, snapshot_of(2));
  ASSERT_EQ(region_.spool.target(), snapshot_of(2));
  EXPECT_EQ(region_.report.status().leaps, std::vector{snapshot_of(2)});
  hear_of({snapshot_of(2)}, snapshot_of(4));
  EXPECT_EQ(region_.spool.target(), snapshot_of(2));
  hear_of({}, snapshot_of(4));
  EXPECT_EQ(region_.spool.target(), snapshot_of(4));
}

// It needs the payloads since: also while the snapshot is checked, and at the first word after a
// link was down.
TEST_F(Leap, NamesTheSnapshotUntilItsWorkerIsNearTheNewestRound) {
  const std::vector<Snapshot> named{snapshot_of(2)};
  hear_of({}, snapshot_of(2));
  EXPECT_TRUE(catch_up_.awaits_snapshot());
  region_.peers.set_down("b");
  catch_up_.choose_target();
  EXPECT_EQ(region_.spool.target(), snapshot_of(2));
  region_.peers.set_up("b", "b's disk");
  EXPECT_EQ(region_.report.status().leaps, named);
  region_.spool.put(snapshot_of(2).blob);
  catch_up_.check_target();
  EXPECT_FALSE(catch_up_.awaits_snapshot());
  EXPECT_EQ(region_.report.status().leaps, named);
  catch_up_.on_checked(snapshot_of(2), true);
  ASSERT_EQ(region_.spool.snapshot(), snapshot_of(2));
  region_.spool.release_old(Applied{kVersion - 3, {}});
  EXPECT_EQ(region_.report.status().leaps, named);
  EXPECT_TRUE(region_.spool.leaps(Applied{kVersion - 2, {}}).empty());
}

// Who connects may have the payloads that nobody sent, or not.
TEST_F(Leap, ASnapshotThatIsUnderWayIsNotTakenBackBecauseALinkComesUpAnew) {
  Status status;
  status.version = kVersion;
  region_.peers.hear("b", status);
  const inter::BlobId missing = payload_of_round(0);
  Time now{0};
  for (; !region_.fetcher.in_vain(missing); now += Fetcher::kRetryMax) catch_up_.fetch(now);
  status.snapshot = snapshot_of(2);
  region_.peers.hear("b", status);
  catch_up_.choose_target();
  ASSERT_EQ(region_.spool.target(), snapshot_of(2));
  catch_up_.fetch(now);
  region_.fetcher.on_progress(snapshot_of(2).blob, 100, now);
  region_.out.take();

  region_.fetcher.on_peer_up("c", now);
  catch_up_.choose_target();
  EXPECT_EQ(region_.spool.target(), snapshot_of(2));
  EXPECT_FALSE(catch_up_.awaits_snapshot()) << "payloads may be sent as well";
  catch_up_.fetch(now);
  bool asks = false;
  for (const Action& action : region_.out.take()) {
    EXPECT_FALSE(std::holds_alternative<ForgoBlob>(action));
    const auto* fetch = std::get_if<FetchBlob>(&action);
    asks = asks || (fetch != nullptr && fetch->blob == missing);
  }
  EXPECT_TRUE(asks) << "of whoever has connected";

  region_.spool.put(missing);
  catch_up_.choose_target();
  EXPECT_FALSE(region_.spool.target()) << "it goes on without";
}

// Its offers are turned away since, and nobody would send it before it is asked for.
TEST_F(Leap, WhatWasTakenBackIsAskedForAtOnceThoughItsContributorPushesIt) {
  hear_that_all_is_kept();
  const std::vector<inter::BlobId> payloads = asked();
  ASSERT_EQ(payloads.size(), kVersion);
  hear_of({}, snapshot_of(2));
  catch_up_.fetch(Time{1});
  region_.out.take();
  hear_that_all_is_kept();  // it has them after all
  ASSERT_FALSE(region_.spool.target());
  catch_up_.expect(payloads[0], "b", Time{0});
  EXPECT_THAT(asked(), ::testing::Contains(payloads[0]));
}

// What comes over one link comes in the order in which it was asked for.
TEST_F(Leap, TheSnapshotGoesBeforeWhatWasAskedForAndTheRoundsBeforeItAreTakenBack) {
  hear_that_all_is_kept();
  const std::vector<inter::BlobId> payloads = asked();
  ASSERT_EQ(payloads.size(), kVersion);
  region_.fetcher.on_progress(payloads[4], 10, Time{0});
  hear_of({}, snapshot_of(2));
  ASSERT_EQ(region_.spool.target(), snapshot_of(2));
  catch_up_.fetch(Time{1});
  std::vector<inter::BlobId> forgone, fetched;
  for (const Action& action : region_.out.take()) {
    if (const auto* forgo = std::get_if<ForgoBlob>(&action)) {
      EXPECT_EQ(forgo->peer, "b");
      EXPECT_TRUE(fetched.empty()) << "taken back before it is asked for anew";
      forgone.push_back(forgo->blob);
    }
    if (const auto* fetch = std::get_if<FetchBlob>(&action)) fetched.push_back(fetch->blob);
  }
  EXPECT_THAT(forgone, UnorderedElementsAreArray(payloads));
  EXPECT_THAT(fetched,
              ElementsAre(snapshot_of(2).blob, payloads[2], payloads[3], payloads[4], payloads[5]));
  catch_up_.fetch(Time{2});
  EXPECT_TRUE(region_.out.take().empty()) << "once";
}

// Its peer has sent all of it.
TEST_F(Leap, WhatArrivedIsNotTakenBack) {
  Status status;
  status.version = kVersion;
  region_.peers.hear("b", status);
  const std::vector<inter::BlobId> payloads = asked();
  region_.spool.put(payloads[0]);
  catch_up_.fetch(Time{1});
  for (const Action& action : region_.out.take())
    EXPECT_FALSE(std::holds_alternative<ForgoBlob>(action));
}

// Its coordinator was started again, and knows nothing of what it fetched but what is on disk.
TEST_F(Leap, GoesOnWithWhatHadBegun) {
  region_.spool.set_room(10'000, {snapshot_of(2).blob});
  hear_of({snapshot_of(2)}, snapshot_of(4));
  EXPECT_EQ(region_.spool.target(), snapshot_of(2));
}

// The record of a round comes before the word of those that have its payloads.
TEST_F(Leap, IsNotBegunForARoundThatIsOnlyNew) {
  region_.worker.attach({.version = kVersion - 1}, std::nullopt);
  Status status;
  status.version = status.payloads_from = kVersion - 1;
  status.snapshot = snapshot_of(4);
  region_.peers.hear("b", status);
  EXPECT_TRUE(catch_up_.can_replay(kVersion - 1));
  status.version = status.payloads_from = kVersion;
  region_.peers.hear("b", status);
  EXPECT_FALSE(catch_up_.can_replay(kVersion - 1));
}

TEST_F(Leap, TakesTheNewestToBeginWith) {
  hear_of({snapshot_of(2)}, snapshot_of(4));
  EXPECT_EQ(region_.spool.target(), snapshot_of(4));
}

// What is made needs another holder.
TEST_F(Leap, IsNotDisturbedByPushesIfAnotherRegionCanHoldThem) {
  Status waiting;
  waiting.awaits_snapshot = true;
  region_.peers.hear("b", waiting);
  EXPECT_TRUE(region_.takes_pushes("b"));
  region_.peers.set_up("c", "c's disk");
  EXPECT_FALSE(region_.takes_pushes("b"));
  EXPECT_TRUE(region_.takes_pushes("c"));
  region_.peers.hear("c", waiting);
  EXPECT_TRUE(region_.takes_pushes("b"));
}

// Peers send in the order of requests.
TEST_F(Leap, AsksForTheSnapshotFirstAndThenForTheRoundsInTheirOrder) {
  hear_of({}, snapshot_of(3));
  std::vector<inter::BlobId> wanted{snapshot_of(3).blob};
  for (Round round = 3; round < kVersion; ++round) wanted.push_back(payload_of_round(round));
  EXPECT_EQ(asked(), wanted);
}

// What it sends comes one after the other.
TEST_F(Leap, WaitsForAPeerThatSendsSomethingElseFirst) {
  hear_of({}, snapshot_of(2));
  asked();
  const inter::BlobId later = payload_of_round(4);
  for (int s = 1; s <= 60; ++s) {
    const Time now = std::chrono::seconds{s};
    region_.fetcher.on_progress(snapshot_of(2).blob, static_cast<std::uint64_t>(s), now);
    catch_up_.fetch(now);
  }
  EXPECT_FALSE(region_.fetcher.in_vain(later));
  for (int s = 61; s <= 120; ++s) catch_up_.fetch(std::chrono::seconds{s});
  EXPECT_TRUE(region_.fetcher.in_vain(later));
}

TEST_F(Leap, SaysThatWhatHadArrivedIsLost) {
  hear_of({}, snapshot_of(2));
  asked();
  region_.fetcher.on_progress(snapshot_of(2).blob, 300, Time{0});
  hear_of({}, snapshot_of(4));
  const std::vector<std::string> said = notes();
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("offers that of version 2 any more (300 of its 500 bytes are here)"),
            std::string::npos)
      << said[0];
}

}  // namespace
}  // namespace causeway::diloco
