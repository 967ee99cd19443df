#include "diloco/round/needs.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {
namespace {

constexpr Round kRecords = 5;

// Region b made what each of the rounds lists: a hundred bytes, of the round's number.
class NeedsTest : public ::testing::Test {
 protected:
  static inter::BlobId listed(Round round) {
    return {.hash = {static_cast<std::uint8_t>(round)}, .size_bytes = 100};
  }
  static PersistentState state() {
    return state_of_a({"a", "b", "c"}, kRecords, [](Round round) {
      return std::vector<Participant>{
          {.region = "b", .round = round, .weight = 1, .payload = listed(round)}};
    });
  }
  NeedsTest() {
    for (const char* peer : {"b", "c"}) region_.peers.set_up(peer, std::string(peer) + "'s disk");
  }
  void has_payloads_from(const std::string& peer, Round from) {
    Status status;
    status.version = kRecords;
    status.payloads_from = from;
    region_.peers.hear(peer, status);
  }
  // To the open round.
  inter::BlobId contributed(const std::string& region, std::uint64_t bytes) {
    Contribution made = made_by(region);
    made.round = kRecords;
    made.payload.size_bytes = bytes;
    region_.contributions.put(made);
    return made.payload;
  }
  // In order, and which of them are urgent.
  std::vector<inter::BlobId> needed(Round from, bool leap = false) {
    urgent_.clear();
    std::vector<inter::BlobId> blobs;
    const Needs needs = needs_of(region_, from, leap, snapshot_);
    for (const Need& one : needs.blobs) {
      blobs.push_back(one.blob);
      if (one.urgent) urgent_.push_back(one.blob);
    }
    return blobs;
  }

  Region region_{options_of_a(), state()};
  std::optional<Need> snapshot_;
  std::vector<inter::BlobId> urgent_;
};

using testing::ElementsAre;

TEST_F(NeedsTest, AreFirstOfAllWhatTheWorkerAppliesNext) {
  has_payloads_from("b", 0);
  const inter::BlobId made = contributed("b", 50);
  EXPECT_THAT(needed(1), ElementsAre(listed(1), listed(2), made, listed(3), listed(4)));
  EXPECT_THAT(urgent_, ElementsAre(listed(1), listed(2)));
  const Needs needs = needs_of(region_, 1, false, {});
  EXPECT_EQ(needs.from, 1U);
  EXPECT_EQ(needs.later, 3U);
  EXPECT_EQ(needs.blobs.front().source, "b");
}

TEST_F(NeedsTest, LeaveOutWhatIsHere) {
  has_payloads_from("b", 0);
  region_.spool.put(listed(2));
  EXPECT_THAT(needed(1), ElementsAre(listed(1), listed(3), listed(4)));
}

// Whoever has more of it must not take the room of all behind it.
TEST_F(NeedsTest, OfTheOpenRoundBeginWithTheSmallest) {
  const inter::BlobId large = contributed("b", 900), small = contributed("c", 100);
  EXPECT_THAT(needed(kRecords), ElementsAre(small, large));
  EXPECT_THAT(urgent_, ElementsAre(small, large)) << "its worker has nothing else to do";
}

TEST_F(NeedsTest, BeyondTheNextRoundsAreOnlyWhatIsOfUse) {
  has_payloads_from("c", 4);
  EXPECT_THAT(needed(0), ElementsAre(listed(0), listed(1), listed(4))) << "nobody has the others";
  EXPECT_FALSE(can_replay(region_, 0));
  EXPECT_TRUE(can_replay(region_, 4));
  has_payloads_from("c", 2);
  EXPECT_THAT(needed(0), ElementsAre(listed(0), listed(1), listed(2), listed(3), listed(4)));
}

TEST_F(NeedsTest, BeginWithTheSnapshotThatTheWorkerGoesOnFrom) {
  has_payloads_from("b", 0);
  const inter::BlobId blob{.hash = {99}, .size_bytes = 500};
  snapshot_ = Need{.blob = blob, .source = "c", .urgent = true};
  EXPECT_THAT(needed(4, true), ElementsAre(blob, listed(4)));
  EXPECT_TRUE(needs_of(region_, 4, true, snapshot_).leap);
  EXPECT_THAT(needed(4, false), ElementsAre(listed(4), blob)) << "it goes on meanwhile";
}

}  // namespace
}  // namespace causeway::diloco
