#include "diloco/round/snapshot_offers.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {
namespace {

// Region a in a run of six rounds, and b and c, which offer it snapshots.
class SnapshotOffersTest : public ::testing::Test {
 protected:
  static constexpr Round kNewest = 6;

  static PersistentState state() { return state_of_a({"a", "b", "c"}, kNewest); }
  SnapshotOffersTest() {
    for (const char* peer : {"b", "c"}) region_.peers.set_up(peer, std::string(peer) + "'s disk");
  }
  // `copy`: other bytes of the same version.
  static Snapshot offered(Round version, int copy = 0) {
    return {.version = version,
            .state = {},
            .blob = {.hash = {static_cast<std::uint8_t>(version), static_cast<std::uint8_t>(copy)},
                     .size_bytes = 500}};
  }
  void says(const std::string& peer, const Snapshot& snapshot, std::vector<Snapshot> older = {},
            const std::optional<Applied>& applied = {}) {
    Status status;
    status.version = kNewest;
    status.snapshot = snapshot;
    status.older = std::move(older);
    status.applied = applied;
    region_.peers.hear(peer, status);
  }
  std::optional<Snapshot> best() const {
    return offers_.best([](const Snapshot&) { return true; });
  }
  // Chosen, fetched, and something else.
  void comes_wrong(const Snapshot& snapshot) {
    region_.spool.aim_at(snapshot);
    offers_.forget_announcers();
    offers_.note_announcers(snapshot);
    offers_.refuse(snapshot);
    region_.spool.drop_target();
  }

  Region region_{options_of_a(), state()};
  SnapshotOffers offers_{region_};
};

TEST_F(SnapshotOffersTest, TheNewestThatIsWantedIsTheBest) {
  EXPECT_FALSE(best());
  says("b", offered(2));
  says("c", offered(4));
  EXPECT_EQ(best(), offered(4));
  EXPECT_EQ(offers_.best([](const Snapshot& one) { return one.version < 3; }), offered(2));
}

TEST_F(SnapshotOffersTest, OneThatIsOnItsWayIsKept) {
  says("b", offered(4), {offered(2)});
  says("c", offered(5));
  region_.spool.aim_at(offered(2));
  EXPECT_EQ(best(), offered(2));
  region_.spool.drop_target();
  EXPECT_EQ(best(), offered(5));
  region_.spool.set_room(10'000, {offered(2).blob});
  EXPECT_EQ(best(), offered(2)) << "before this process started";
}

TEST_F(SnapshotOffersTest, WhatWasSomethingElseIsNeverTakenAgain) {
  says("b", offered(4));
  comes_wrong(offered(4));
  EXPECT_FALSE(best());
  says("c", offered(4));
  EXPECT_FALSE(best());
}

TEST_F(SnapshotOffersTest, WhoAnnouncedSomethingElseComesLast) {
  says("b", offered(4));
  comes_wrong(offered(4));
  says("b", offered(5));
  EXPECT_EQ(best(), offered(5)) << "nobody else offers any";
  says("c", offered(2));
  EXPECT_EQ(best(), offered(2));
}

TEST_F(SnapshotOffersTest, WhoAnnouncedThreeOfThemIsNotBelieved) {
  for (const int copy : {1, 2, 3}) {
    says("b", offered(4, copy));
    EXPECT_EQ(best(), offered(4, copy));
    comes_wrong(offered(4, copy));
  }
  says("b", offered(4));
  EXPECT_FALSE(best());
  says("c", offered(2));
  EXPECT_EQ(best(), offered(2));
}

// It did not answer for what another one sent before.
TEST_F(SnapshotOffersTest, OnlyThoseThatOfferedItAnswerForIt) {
  says("c", offered(2));
  says("b", offered(4));
  comes_wrong(offered(4));
  says("b", offered(5));
  says("c", offered(5, 1));
  EXPECT_EQ(best(), offered(5, 1));
}

TEST_F(SnapshotOffersTest, OneWithoutBytesIsNone) {
  Snapshot empty = offered(4);
  empty.blob.size_bytes = 0;
  says("b", empty);
  EXPECT_FALSE(best());
}

// No record says which the last state is.
TEST_F(SnapshotOffersTest, TheLastStateIsTheOneThatMoreRegionsHold) {
  const Applied own{.version = kNewest, .state = {}}, other{.version = kNewest, .state = {{1}}};
  says("b", offered(kNewest), {}, own);
  EXPECT_EQ(best(), offered(kNewest));
  says("c", offered(2), {}, other);
  EXPECT_EQ(best(), offered(2)) << "as many hold another one";
}

TEST_F(SnapshotOffersTest, ComesFromWhoeverHasItAndALink) {
  says("c", offered(4), {offered(2)});
  EXPECT_EQ(offers_.source_of(offered(2)), "c");
  EXPECT_EQ(offers_.source_of(offered(4)), "c");
  EXPECT_FALSE(offers_.source_of(offered(3)));
  region_.peers.set_down("c");
  EXPECT_FALSE(offers_.source_of(offered(4)));
}

}  // namespace
}  // namespace causeway::diloco
