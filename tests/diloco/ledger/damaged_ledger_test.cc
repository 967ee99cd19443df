// A ledger of which the disk lost or changed something: what is made of the rest, and what is
// refused.
#include <filesystem>
#include <fstream>
#include <system_error>

#include <gtest/gtest.h>

#include "diloco/files/error.h"
#include "diloco/ledger/ledger.h"
#include "diloco/ledger/ledger_files.h"
#include "tests/diloco/ledger/ledger_fixture.h"

namespace causeway::diloco {
namespace {

class DamagedLedger : public LedgerTest {
 protected:
  // Two regions vote; the entries are no promises any more. Returns the incarnation.
  std::string write_rounds_of_two() {
    std::filesystem::remove_all(path());
    Ledger ledger(path());
    ledger.set_run_id("run-1");
    const LogEntry members{.term = 1,
                           .body = Membership{.members = {{.region = "a", .incarnation = "1"},
                                                          {.region = "b", .incarnation = "2"}}}};
    ledger.append(std::span(&members, 1));
    std::vector<LogEntry> rounds = entries(0, 3);
    rounds.back().term = 3;
    ledger.append(rounds);
    const std::vector<LogEntry> promised = entries(3, 1);
    ledger.save_raft(5, "b", 5, promised);
    return ledger.incarnation();
  }
  // As a run begins: its founder votes, then the other regions one by one. Returns where each entry
  // begins.
  std::vector<std::size_t> write_beginning(std::vector<Member> members) {
    std::filesystem::remove_all(path());
    Ledger ledger(path());
    ledger.set_run_id("run-1");
    std::vector<LogEntry> log;
    for (Member& member : members) {
      member.incarnation = "disk";
      Membership membership;
      for (const Member& each : members) membership = with(membership, each);
      log.push_back({.term = 1, .body = membership});
      if (log.size() == 1) log.push_back({.term = 1, .body = {}});
    }
    ledger.append(log);
    ledger.append(entries(0, 2));
    ledger.save_raft(5, "a", log.size() + 3, {});
    std::vector<std::size_t> offsets;
    scan_ledger(records(), "run-1",
                [&](const LedgerEntry&, std::size_t offset) { offsets.push_back(offset); });
    return offsets;
  }
  // Expects that the action finds this file of the ledger damaged.
  template <typename Action>
  void expect_damaged(const std::string& file, const Action& action) {
    try {
      action();
      ADD_FAILURE() << file << " was taken as it is";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), Errc::lineage) << error.what();
      EXPECT_NE(std::string(error.what()).find(file + " is damaged"), std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find("delete ledger/incarnation"), std::string::npos)
          << "a backup that is put back must not vote: " << error.what();
    }
  }
  void corrupt(std::uintmax_t offset) {
    std::fstream file(records(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put('\x55');
  }
};

TEST_F(DamagedLedger, RefusesToForgetWhatNobodyElseKnows) {
  write_rounds(3);
  std::filesystem::remove(path() / "raft");
  expect_damaged("ledger", [this] { Ledger{path()}; });
  std::ofstream(path() / "incarnation") << "nonsense\n";
  expect_damaged("ledger", [this] { Ledger{path()}; });
}

TEST_F(DamagedLedger, WhatItPromisedWasPromisedByADiskThatIsLostOnceItIsDamaged) {
  for (const std::string file : {"raft", "incarnation"}) {
    const std::string before = write_rounds_of_two();
    flip(path() / file, 15);
    Ledger ledger(path());
    EXPECT_NE(ledger.incarnation(), before) << file;
    const RaftState state = ledger.raft();
    EXPECT_EQ(state.vote, "") << file;
    EXPECT_GE(state.term, 3) << file << ": no less than that of the newest entry";
    EXPECT_EQ(state.committed, 4) << file;
    EXPECT_EQ(state.log.size(), 4U) << file << ": what is committed is not promised any more";
    const std::string now = ledger.incarnation();
    std::filesystem::remove_all(directory_.path() / "copy");
    std::filesystem::copy(path(), directory_.path() / "copy");
    EXPECT_EQ(Ledger(directory_.path() / "copy").incarnation(), now) << "mended once and for all";
  }
}

// docs/checkpoints.md: how a backup is put back.
TEST_F(DamagedLedger, ACopyWithoutItsIncarnationTakesPartUnderAnotherName) {
  const std::string before = write_rounds_of_two();
  std::filesystem::remove(path() / "incarnation");
  const Ledger ledger(path());
  EXPECT_NE(ledger.incarnation(), before);
  EXPECT_NE(ledger.incarnation(), "");
  EXPECT_EQ(ledger.raft().vote, "");
  EXPECT_EQ(ledger.committed(), 4U) << "what it knows it still knows";
}

TEST_F(DamagedLedger, EntriesBehindADamagedOneAreCutOffAndKeptAside) {
  const std::string before = write_rounds_of_two();
  const std::uintmax_t whole = std::filesystem::file_size(records());
  flip(records(), whole / 2);
  Ledger ledger(path());
  const RaftState state = ledger.raft();
  EXPECT_NE(ledger.incarnation(), before);
  EXPECT_LT(state.committed, 4);
  EXPECT_EQ(std::filesystem::file_size(records()) +
                std::filesystem::file_size(path() / "records.damaged"),
            whole);
  const LogEntry again = entries(0, 1).front();
  ledger.append(std::span(&again, 1));
  EXPECT_EQ(ledger.raft().committed, state.committed + 1);
}

// The entries that give the others their votes are lost with what is in front of them.
TEST_F(DamagedLedger, DamageInTheEntriesThatARunBeginsWithIsMendedByTheOthers) {
  const std::vector<Member> three = {{.region = "a"}, {.region = "b"}, {.region = "c"}};
  for (const std::size_t place : {0U, 2U, 10U}) {  // in a length, and in an entry
    for (std::size_t damaged = 0; damaged < 6; ++damaged) {
      const std::size_t offset = write_beginning(three).at(damaged);
      const std::string before = read_incarnation(path());
      flip(records(), offset + place);
      Ledger ledger(path());
      EXPECT_NE(ledger.incarnation(), before) << damaged << ", " << place;
      EXPECT_EQ(ledger.committed(), damaged) << place;
    }
  }
}

TEST_F(DamagedLedger, DamageInARunOfOneRegionIsMendedByNobody) {
  for (std::size_t damaged = 0; damaged < 4; ++damaged) {
    const std::size_t offset = write_beginning({{.region = "a"}}).at(damaged);
    flip(records(), offset + 10);
    expect_damaged("ledger", [this] { Ledger{path()}; });
  }
}

TEST_F(DamagedLedger, ADamagedEntryThatIsStillPromisedIsNotLost) {
  write_rounds(3);
  corrupt(20);
  Ledger ledger(path());
  EXPECT_EQ(ledger.raft().committed, 0);
  EXPECT_EQ(ledger.raft().log.size(), 3U);
  EXPECT_EQ(ledger.raft().vote, "b");
}

TEST_F(DamagedLedger, AnyOtherFileThatIsDamagedIsNamed) {
  write_rounds_of_two();
  {
    Ledger ledger(path());
    ledger.save(Snapshot{.version = 1, .state = sha256({}), .blob = blob(1)});
    ledger.save_finished(2, sha256({}));
    ledger.save(std::vector<Contribution>{});
  }
  for (const std::string file : {"snapshot", "finished", "run", "contributions"}) {
    flip(path() / file, 9);
    expect_damaged(file, [this] {
      const Ledger ledger(path());
      (void)ledger.snapshot();
      (void)ledger.finished();
      (void)ledger.contributions();
    });
    flip(path() / file, 9);
  }
}

// The region would end in the middle of a run that goes on.
TEST_F(DamagedLedger, WhatWasSignedOfAnEndThatIsTakenBackNeedNotBeReadable) {
  write_rounds_of_two();
  Ledger ledger(path());
  ledger.save_finished(2, sha256({}));
  flip(path() / "finished", 9);
  ledger.void_finished_after(1);
  EXPECT_EQ(ledger.finished(), std::nullopt);
}

TEST_F(DamagedLedger, NamesASnapshotFileThatIsEmpty) {
  write_rounds(1);
  std::ofstream(path() / "snapshot").flush();
  expect_damaged("snapshot", [this] { Ledger(path()).snapshot(); });
}

}  // namespace
}  // namespace causeway::diloco
