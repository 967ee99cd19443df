#include "diloco/ledger/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <system_error>

#include "tests/diloco/ledger/ledger_fixture.h"

namespace causeway::diloco {
namespace {

TEST_F(LedgerTest, KeepsEverythingAcrossAReopening) {
  const Contribution contribution{
      .run_id = "run-1", .region = "a", .round = 3, .data_cursor = 40, .payload = blob(3)};
  const Snapshot snapshot{.version = 2, .state = sha256({}), .blob = blob(4)};
  Digest head{};
  write_rounds(3);
  {
    Ledger ledger(path());
    ledger.save(std::vector{contribution});
    ledger.save_raft(7, "b", 4, entries(3, 2));
    ledger.save(snapshot);
    head = ledger.head();
  }
  const Ledger ledger(path());
  EXPECT_EQ(ledger.run_id(), "run-1");
  const RaftState raft = ledger.raft();
  EXPECT_EQ(raft.term, 7);
  EXPECT_EQ(raft.vote, "b");
  EXPECT_EQ(raft.committed, 3);
  ASSERT_EQ(raft.log.size(), 5);
  for (Round round = 0; round < 5; ++round) {
    EXPECT_EQ(serialize(std::get<CommitRecord>(raft.log[round].body)), serialize(record(round)));
  }
  EXPECT_EQ(ledger.head(), head);
  EXPECT_EQ(serialize(ledger.contributions().at(0)), serialize(contribution));
  EXPECT_EQ(ledger.snapshot(), snapshot);
}

TEST_F(LedgerTest, ReadsAnyEntriesAgainAndStartsWithTheNewest) {
  {
    Ledger ledger(path());
    ledger.set_run_id("run-1");
    ledger.append(entries(0, 150));
    for (Round round = 150; round < 200; ++round) ledger.append(entries(round, 1));
    ledger.save_raft(1, "", 201, {});
  }
  const Ledger ledger(path());
  for (const auto& [first, count] : {std::pair<Index, std::size_t>{1, 1},
                                     {1, 200},
                                     {63, 3},
                                     {64, 1},
                                     {65, 64},
                                     {128, 2},
                                     {200, 1}}) {
    const std::vector<LogEntry> read = ledger.read(first, count);
    ASSERT_EQ(read.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(std::get<CommitRecord>(read[i].body).round, first - 1 + i);
    }
  }
  const RaftState raft = ledger.raft();
  EXPECT_LT(raft.log.size(), 100);
  EXPECT_EQ(raft.first + raft.log.size() - 1, 200);
  EXPECT_EQ(std::get<CommitRecord>(raft.log.front().body).round, raft.first - 1);
}

TEST_F(LedgerTest, AFoundingThatWasInterruptedIsNone) {
  const LogEntry first{.term = 1, .body = Membership{.members = {{.region = "a"}}}};
  {
    Ledger ledger(path());
    ledger.found("run-1", first);
  }
  EXPECT_EQ(Ledger(path()).raft().committed, 1);
  std::filesystem::remove(path() / "run");
  Ledger again(path());
  EXPECT_EQ(again.run_id(), "");
  EXPECT_EQ(again.raft().committed, 0);
  again.found("run-2", first);
  EXPECT_EQ(again.raft().committed, 1);
}

TEST_F(LedgerTest, EqualHistoriesAreEqualFilesHoweverTheyWereAppended) {
  write_rounds(3);
  Ledger other(directory_.path() / "other");
  other.set_run_id("run-1");
  other.append(entries(0, 3));
  EXPECT_EQ(other.head(), Ledger(path()).head());
}

TEST_F(LedgerTest, CutsOffAnUnfinishedEntryAtAnyLength) {
  write_rounds(2);
  const std::uintmax_t whole = std::filesystem::file_size(records());
  for (std::uintmax_t cut = 1; cut < whole / 2; cut += 13) {
    {
      Ledger ledger(path());
      if (ledger.raft().committed == 1) ledger.append(entries(1, 1));
    }
    std::filesystem::resize_file(records(), whole - cut);
    EXPECT_EQ(Ledger(path()).raft().committed, 1) << cut;
  }
}

TEST_F(LedgerTest, IsLockedAgainstASecondCoordinator) {
  const Ledger ledger(path());
  try {
    const Ledger second(path());
    ADD_FAILURE() << "it is opened twice";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::resource_unavailable_try_again) << "the other one may end";
    EXPECT_THAT(error.what(), testing::HasSubstr("another coordinator uses"));
  }
}

}  // namespace
}  // namespace causeway::diloco
