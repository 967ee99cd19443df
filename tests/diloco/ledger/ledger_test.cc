#include "diloco/ledger/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
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
    ledger.save_raft(1, "b", 1, entries(0, count));
    for (Round round = 0; round < count; ++round) ledger.append(entries(round, 1));
  }
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
  static void flip(const std::filesystem::path& file_name, std::uintmax_t offset) {
    std::fstream file(file_name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const auto flipped = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(flipped);
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

TEST_F(LedgerTest, RefusesToForgetWhatNobodyElseKnows) {
  write_rounds(3);
  std::filesystem::remove(path() / "raft");
  expect_damaged("ledger", [this] { Ledger{path()}; });
  std::ofstream(path() / "incarnation") << "nonsense\n";
  expect_damaged("ledger", [this] { Ledger{path()}; });
}

TEST_F(LedgerTest, WhatItPromisedWasPromisedByADiskThatIsLostOnceItIsDamaged) {
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
TEST_F(LedgerTest, ACopyWithoutItsIncarnationTakesPartUnderAnotherName) {
  const std::string before = write_rounds_of_two();
  std::filesystem::remove(path() / "incarnation");
  const Ledger ledger(path());
  EXPECT_NE(ledger.incarnation(), before);
  EXPECT_NE(ledger.incarnation(), "");
  EXPECT_EQ(ledger.raft().vote, "");
  EXPECT_EQ(ledger.committed(), 4U) << "what it knows it still knows";
}

TEST_F(LedgerTest, EntriesBehindADamagedOneAreCutOffAndKeptAside) {
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
TEST_F(LedgerTest, DamageInTheEntriesThatARunBeginsWithIsMendedByTheOthers) {
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

TEST_F(LedgerTest, DamageInARunOfOneRegionIsMendedByNobody) {
  for (std::size_t damaged = 0; damaged < 4; ++damaged) {
    const std::size_t offset = write_beginning({{.region = "a"}}).at(damaged);
    flip(records(), offset + 10);
    expect_damaged("ledger", [this] { Ledger{path()}; });
  }
}

TEST_F(LedgerTest, ADamagedEntryThatIsStillPromisedIsNotLost) {
  write_rounds(3);
  corrupt(20);
  Ledger ledger(path());
  EXPECT_EQ(ledger.raft().committed, 0);
  EXPECT_EQ(ledger.raft().log.size(), 3U);
  EXPECT_EQ(ledger.raft().vote, "b");
}

TEST_F(LedgerTest, AnyOtherFileThatIsDamagedIsNamed) {
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

// Opens a ledger whose signatures are the content and a mark, and counts those that are checked.
class SignedLedger : public LedgerTest {
 protected:
  std::unique_ptr<Ledger> open(const std::string& key = "key-1") {
    checks_ = 0;
    return std::make_unique<Ledger>(
        path(), [](const std::string& content) { return content + "!"; },
        [this](const std::string& content, const std::string& signature) {
          ++checks_;
          return signature == content + "!";
        },
        key);
  }
  int checks_of_a_start(const std::string& key = "key-1") {
    open(key);
    return checks_;
  }
  // In one life of its process.
  void write(Round first, Round count) {
    const std::unique_ptr<Ledger> ledger = open();
    if (ledger->run_id().empty()) ledger->set_run_id("run-1");
    ledger->append(entries(first, count));
    ledger->save_raft(1, "", first + count + 1, {});
  }
  bool all_are_signed() {
    bool all = true;
    scan_ledger(records(), "run-1", [&all](const LedgerEntry& entry, std::size_t) {
      all = all && is_signed(entry, [](const std::string& content, const std::string& signature) {
              return signature == content + "!";
            });
    });
    return all;
  }

  int checks_ = 0;
};

TEST_F(SignedLedger, IsCheckedOnceAndFromThereOn) {
  write(0, 5);
  EXPECT_EQ(checks_of_a_start(), 5);
  EXPECT_EQ(checks_of_a_start(), 0);
  write(5, 2);
  EXPECT_EQ(checks_of_a_start(), 2);
  EXPECT_EQ(checks_of_a_start(), 0);
  EXPECT_EQ(open()->committed(), 7U);
  const Digest head = open()->head();
  EXPECT_EQ(head, Ledger(path()).head()) << "whoever has no key reads the same";
}

TEST_F(SignedLedger, OfALongLifeIsNotCheckedAllAtTheNextStart) {
  write(0, 1500);
  EXPECT_EQ(checks_of_a_start(), 0) << "it was noted on the way";
}

TEST_F(SignedLedger, IsCheckedAgainWithAnotherKey) {
  write(0, 5);
  checks_of_a_start();
  EXPECT_EQ(checks_of_a_start("key-2"), 5);
  EXPECT_EQ(checks_of_a_start("key-2"), 0);
}

// The chain of the entries' hashes leaves signatures out.
TEST_F(SignedLedger, OfWhichTheDiskChangedASignatureIsCheckedAndSignedAnew) {
  write(0, 5);
  checks_of_a_start();
  std::vector<std::size_t> ends;
  scan_ledger(records(), "run-1",
              [&](const LedgerEntry&, std::size_t offset) { ends.push_back(offset); });
  ends.push_back(std::filesystem::file_size(records()));
  for (std::size_t entry = 1; entry < ends.size(); ++entry) {
    flip(records(), ends[entry] - 1);  // the signature is what an entry ends with
    EXPECT_FALSE(all_are_signed());
    EXPECT_EQ(checks_of_a_start(), 5) << entry;
    EXPECT_TRUE(all_are_signed()) << entry;
    EXPECT_EQ(checks_of_a_start(), 0) << entry;
  }
}

TEST_F(SignedLedger, IsCheckedAgainWhereWhatWasNotedIsDamaged) {
  write(0, 5);
  checks_of_a_start();
  const std::filesystem::path noted = path() / "checked-signatures";
  EXPECT_TRUE(damaged_files(path()).empty());
  flip(noted, 0);
  EXPECT_EQ(damaged_files(path()).size(), 1U);
  EXPECT_EQ(checks_of_a_start(), 5);
  EXPECT_EQ(checks_of_a_start(), 0) << "it is written anew";
  std::filesystem::remove(noted);
  EXPECT_EQ(checks_of_a_start(), 5);
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

TEST(Record, CarriesWhatWasPaidAndWhatTheBudgetDecided) {
  CommitRecord paid = record(0);
  paid.decided_unix_s = 1.75e9;
  paid.egress = {{"asia", 1.5}, {"eu", 0}};
  paid.k_decision = {.verdict = KDecision::Verdict::paused, .from = 20, .k = 900};
  paid.k_decision->spending = {.period = Spending::Period::month,
                               .limit = 40,
                               .spent = 39.5,
                               .round_cost = 0.5,
                               .until_unix_s = 1.76e9};
  const CommitRecord read = parse_commit_record(serialize(paid));
  EXPECT_EQ(serialize(read), serialize(paid));
  EXPECT_EQ(read.k_decision->spending, paid.k_decision->spending);
  ASSERT_EQ(read.egress.size(), 2);
  EXPECT_EQ(read.egress[0].cost, 1.5);
}

TEST(Record, RefusesCostsThatCannotBe) {
  for (const double cost : {-1.0, 1e16, std::numeric_limits<double>::infinity()}) {
    CommitRecord liar = record(0);
    liar.egress = {{"asia", cost}};
    EXPECT_THROW(parse_commit_record(serialize(liar)), std::system_error) << cost;
    Contribution contribution{.run_id = {}, .region = "asia"};
    contribution.egress_cost = cost;
    EXPECT_THROW(parse_contribution(serialize(contribution)), std::system_error) << cost;
  }
  CommitRecord unordered = record(0);
  unordered.egress = {{"eu", 1}, {"asia", 1}};
  EXPECT_THROW(parse_commit_record(serialize(unordered)), std::system_error);
}

}  // namespace
}  // namespace causeway::diloco
