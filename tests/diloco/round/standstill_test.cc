#include "diloco/round/standstill.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

constexpr Round kCommitted = 4;

inter::BlobId blob_numbered(int number) {
  return {.hash = {static_cast<std::uint8_t>(number)}, .size_bytes = 100};
}

// Members a, b and c, of which two make a round; four rounds are committed. Nobody has a payload of
// them.
class StandstillTest : public ::testing::Test {
 protected:
  static PersistentState state() {
    return state_of_a({"a", "b", "c"}, kCommitted, [](Round round) {
      return std::vector<Participant>{{.region = "b",
                                       .round = round,
                                       .weight = 1,
                                       .payload = blob_numbered(static_cast<int>(round) + 1)}};
    });
  }

  StandstillTest() {
    region_.agreement.start(Time{0});
    region_.worker.attach({.version = 1}, std::nullopt);
    for (const char* peer : {"b", "c"}) {
      region_.peers.set_up(peer, std::string(peer) + "'s disk");
      region_.agreement.raft().on_peer_up(peer, std::string(peer) + "'s disk", Time{0});
    }
  }

  void says(const std::string& peer, Round applied, std::vector<inter::BlobId> missing = {},
            const std::optional<Snapshot>& snapshot = {}) {
    Status status;
    status.version = status.payloads_from = kCommitted;
    status.applied = Applied{.version = applied, .state = {}};
    status.missing = std::move(missing);
    status.snapshot = snapshot;
    region_.peers.hear(peer, status);
  }
  void lacks(std::vector<inter::BlobId> missing) { region_.report.set_missing(std::move(missing)); }

  Region region_{options_of_a(), state()};
  CatchUp catch_up_{region_};
  Standstill standstill_{region_, catch_up_, {.usual = seconds{10}, .longest = seconds{80}}};
};

using Lost = std::optional<Standstill::Lost>;

// What one of them still has it can give to the others.
TEST_F(StandstillTest, NamesWhatAllLackThatStandAtARound) {
  says("b", 1, {blob_numbered(2), blob_numbered(3)});
  says("c", 1, {blob_numbered(3), blob_numbered(4)});
  lacks({blob_numbered(3)});
  EXPECT_FALSE(standstill_.lost(Time{0})) << "a region that is away had no time to come back";
  EXPECT_EQ(standstill_.lost(seconds{10}), (Lost{{1, {blob_numbered(3)}}}));
}

TEST_F(StandstillTest, IsNoneWhereNobodyLacksAnything) {
  says("b", 1);
  says("c", 1);
  EXPECT_FALSE(standstill_.lost(Time{0}));
  EXPECT_FALSE(standstill_.lost(seconds{1000}));
}

TEST_F(StandstillTest, IsNoneWhereEnoughGoOnBeyond) {
  says("b", 2);
  says("c", 3);
  lacks({blob_numbered(2)});
  EXPECT_FALSE(standstill_.lost(Time{0}));
  EXPECT_FALSE(standstill_.lost(seconds{1000}));
  says("c", 1, {blob_numbered(2)});
  standstill_.lost(seconds{1000});
  EXPECT_EQ(standstill_.lost(seconds{1010}), (Lost{{1, {blob_numbered(2)}}}))
      << "b alone makes no round";
}

// Who holds another state than the agreed one contributes nothing.
TEST_F(StandstillTest, IsNotEndedByAStateThatIsWrong) {
  says("b", 2);
  Status wrong;
  wrong.version = wrong.payloads_from = kCommitted;
  wrong.applied = Applied{.version = 3, .state = {{1}}};
  region_.peers.hear("c", wrong);
  lacks({blob_numbered(2)});
  standstill_.lost(Time{0});
  EXPECT_EQ(standstill_.lost(seconds{10}), (Lost{{1, {blob_numbered(2)}}}));
}

TEST_F(StandstillTest, IsNotJudgedByWhoKnowsOtherRecords) {
  Status behind;
  behind.version = kCommitted - 1;
  behind.applied = Applied{.version = 1, .state = {}};
  behind.missing = {blob_numbered(3)};
  region_.peers.hear("b", behind);
  EXPECT_FALSE(standstill_.lost(Time{0}));
  EXPECT_FALSE(standstill_.lost(seconds{1000}));
}

TEST_F(StandstillTest, WaitsForWhatMovesButNotForEver) {
  lacks({blob_numbered(2)});
  EXPECT_FALSE(standstill_.lost(seconds{5}));
  EXPECT_EQ(standstill_.deadlines().back(), seconds{15});
  standstill_.note_progress(seconds{14});
  EXPECT_FALSE(standstill_.lost(seconds{15}));
  EXPECT_EQ(standstill_.deadlines().back(), seconds{24});
  standstill_.note_progress(seconds{80});
  EXPECT_FALSE(standstill_.lost(seconds{84}));
  EXPECT_TRUE(standstill_.lost(seconds{85}));
}

TEST_F(StandstillTest, IsCountedAnewWhenSomethingElseIsLost) {
  lacks({blob_numbered(2)});
  EXPECT_FALSE(standstill_.lost(Time{0}));
  lacks({blob_numbered(3)});
  EXPECT_FALSE(standstill_.lost(seconds{10}));
  EXPECT_TRUE(standstill_.lost(seconds{20}));
}

// Its worker's state is wrong, and what would lead to the right one is gone.
class StuckTest : public StandstillTest {
 protected:
  StuckTest() {
    region_.agreement.raft().on_message("b", {"b's disk", AppendEntries{.term = 1, .entries = {}}},
                                        Time{0});
    region_.worker.ask();
    region_.worker.distrust();
    for (const char* peer : {"b", "c"}) says(peer, 1);
    region_.out.take();
  }
  std::optional<EndRun> ended(Time now) {
    standstill_.check(now);
    for (const Action& action : region_.out.take())
      if (const auto* end = std::get_if<EndRun>(&action)) return *end;
    return std::nullopt;
  }
  static constexpr Time kUntil = seconds{10} + 3 * Fetcher::kRetryMax;  // all were asked again
};

TEST_F(StuckTest, EndsARunThatNobodyCanBringOn) {
  EXPECT_FALSE(ended(Time{0}));
  EXPECT_EQ(standstill_.deadlines().front(), kUntil);
  EXPECT_FALSE(ended(kUntil - Time{1}));
  const auto end = ended(kUntil);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->exit_code, 4);
  EXPECT_NE(end->message.find("so version 4 cannot be reached from version 1"), std::string::npos)
      << end->message;
}

TEST_F(StuckTest, DoesNotEndARunThatOthersMake) {
  for (const char* peer : {"b", "c"}) says(peer, kCommitted);
  EXPECT_FALSE(ended(Time{0}));
  EXPECT_FALSE(ended(seconds{10'000}));
}

TEST_F(StuckTest, DoesNotEndWhileOneThatIsAwayMayBringASnapshot) {
  says("c", 1, {}, Snapshot{.version = 2, .state = {}, .blob = blob_numbered(9)});
  region_.peers.set_down("c");
  EXPECT_FALSE(ended(Time{0}));
  EXPECT_FALSE(ended(seconds{10'000}));
}

// They are taken out of the round again, and the others go on.
TEST_F(StuckTest, DoesNotEndWhileOthersLackPayloads) {
  says("c", 1, {blob_numbered(2)});
  EXPECT_FALSE(ended(Time{0}));
  EXPECT_FALSE(ended(seconds{10'000}));
}

TEST_F(StuckTest, DoesNotEndWithoutALeader) {
  region_.agreement.raft().on_peer_down("b", Time{0});
  ASSERT_FALSE(region_.agreement.leader());
  EXPECT_FALSE(ended(Time{0}));
  EXPECT_FALSE(ended(seconds{10'000}));
}

}  // namespace
}  // namespace causeway::diloco
