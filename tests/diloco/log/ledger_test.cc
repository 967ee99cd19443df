#include "diloco/log/ledger.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "diloco/files/error.h"
#include "tests/support/temporary_directory.h"

namespace causeway::diloco {
namespace {

inter::BlobId blob(std::uint8_t value) {
  inter::BlobId id{.hash = {}, .size_bytes = value};
  id.hash.fill(value);
  return id;
}

CommitRecord record(Round round, const std::string& run_id = "run-1") {
  return {
      .run_id = run_id,
      .round = round,
      .participants =
          {{.region = "a", .weight = 0.25F, .data_cursor = 7, .tokens = 10, .payload = blob(1)},
           {.region = "b", .weight = 0.75F, .data_cursor = 9, .tokens = 30, .payload = blob(2)}},
      .state = sha256({}),
      .next_k = 4};
}

std::vector<LogEntry> entries(Round first, Round count) {
  std::vector<LogEntry> entries;
  for (Round round = first; round < first + count; ++round) {
    entries.push_back({.term = 1, .body = record(round)});
  }
  return entries;
}

class LedgerTest : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return directory_.path() / "ledger"; }
  std::filesystem::path records() const { return path() / "records"; }

  void write_rounds(Round count) {
    Ledger ledger(path());
    ledger.set_run_id("run-1");
    ledger.save_raft(1, "", count + 1, {});
    for (Round round = 0; round < count; ++round) ledger.append(entries(round, 1));
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
    }
  }
  void corrupt(std::uintmax_t offset) {
    std::fstream file(records(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put('\x55');
  }

  test::TemporaryDirectory directory_;
};

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

TEST_F(LedgerTest, RefusesToForgetWhatItPromised) {
  write_rounds(3);
  std::filesystem::remove(path() / "raft");
  expect_damaged("raft", [this] { Ledger(path()).raft(); });
  std::ofstream(path() / "incarnation") << "nonsense\n";
  expect_damaged("incarnation", [this] { Ledger{path()}; });
}

TEST_F(LedgerTest, NamesASnapshotFileThatIsEmpty) {
  write_rounds(1);
  std::ofstream(path() / "snapshot").flush();
  expect_damaged("snapshot", [this] { Ledger(path()).snapshot(); });
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

TEST_F(LedgerTest, RefusesAnEntryThatWasChangedInTheMiddle) {
  write_rounds(3);
  corrupt(20);
  expect_damaged("records", [this] { Ledger{path()}; });
}

TEST_F(LedgerTest, IsLockedAgainstASecondCoordinator) {
  const Ledger ledger(path());
  EXPECT_THROW(Ledger second(path()), std::system_error);
}

TEST(Record, RefusesWhatIsNotARecord) {
  EXPECT_THROW(parse_commit_record("nonsense"), std::system_error);
  CommitRecord unordered = record(0);
  std::swap(unordered.participants[0], unordered.participants[1]);
  EXPECT_THROW(parse_commit_record(serialize(unordered)), std::system_error);
  CommitRecord negative = record(0);
  negative.participants[0].weight = -1;
  EXPECT_THROW(parse_commit_record(serialize(negative)), std::system_error);
  CommitRecord boundless = record(0);
  boundless.participants[0].payload.size_bytes = inter::kBlobBytesMax + 1;
  EXPECT_THROW(parse_commit_record(serialize(boundless)), std::system_error);
  const std::string whole = serialize(record(0));
  EXPECT_NO_THROW(parse_commit_record(whole));
  EXPECT_THROW(parse_commit_record(whole.substr(0, whole.size() / 2)), std::system_error);
}

}  // namespace
}  // namespace causeway::diloco
