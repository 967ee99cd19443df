#include "diloco/ledger/ledger_file.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "diloco/files/checked_file.h"
#include "diloco/files/file_io.h"
#include "diloco/maths/digest.h"
#include "tests/support/temporary_directory.h"

namespace causeway::diloco {
namespace {

constexpr char kRun[] = "run-1";

LogEntry entry_of(Term term) {
  return {.term = term, .body = {}};
}

class RecoveryTest : public ::testing::Test {
 protected:
  RecoveryTest() {
    Digest head = chain_start(kRun);
    for (Term term = 1; term <= 3; ++term) {
      const std::string content = content_of(entry_of(term));
      head = chain_next(head, content);
      records_ += ledger_bytes(content, head, {}, {});
    }
  }

  Recovery recovered(const std::string& records, const std::string& raft) {
    terms_.clear();
    const LedgerExtent extent = scan_entries(
        records, kRun,
        [this](const LedgerEntry& entry, std::size_t) { terms_.push_back(entry.entry.term); });
    return recover(extent, terms_.size(), raft);
  }
  static std::string flipped(std::string bytes, std::size_t bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    return bytes;
  }

  std::string records_;
  std::vector<Term> terms_;
};

// Of a file only a part is in memory. Entries lie across its ends, and one is larger than it.
TEST(LedgerFile, GivesTheSameByPartsAsInOnePiece) {
  const test::TemporaryDirectory directory(test::in_memory());
  const auto file = directory.path() / "records";
  EXPECT_EQ(scan_records(file, kRun, [](auto&&, std::size_t) {}).whole_bytes, 0U);
  std::string bytes;
  Digest head = chain_start(kRun);
  for (const std::size_t size : {400'000, 700'000, 1, 3'000'000, 1'048'570, 1'048'580, 1}) {
    CommitRecord record;
    record.run_id = std::string(size, 'r');
    const std::string content = content_of({.term = size, .body = record});
    head = chain_next(head, content);
    bytes += ledger_bytes(content, head, {}, {});
  }
  using Seen = std::vector<std::pair<Term, std::size_t>>;
  for (const std::size_t torn : {0, 1, 100'000, 2'000'000}) {
    const std::string part = bytes.substr(0, bytes.size() - torn);
    replace_file(file, part, Durability::visible);
    Seen by_parts, in_one_piece;
    const LedgerExtent extent = scan_records(file, kRun, [&](const auto& entry, std::size_t at) {
      by_parts.emplace_back(entry.entry.term, at);
    });
    const LedgerExtent whole = scan_entries(part, kRun, [&](const auto& entry, std::size_t at) {
      in_one_piece.emplace_back(entry.entry.term, at);
    });
    EXPECT_EQ(by_parts, in_one_piece) << torn;
    EXPECT_EQ(extent.whole_bytes, whole.whole_bytes);
    EXPECT_EQ(extent.torn_bytes, whole.torn_bytes);
  }
  bytes[4'200'000] ^= 1;
  replace_file(file, bytes, Durability::visible);
  const LedgerExtent extent = scan_records(file, kRun, [](auto&&, std::size_t) {});
  EXPECT_EQ(extent.damage, scan_entries(bytes, kRun, [](auto&&, std::size_t) {}).damage);
  EXPECT_NE(extent.damage, "");
}

TEST_F(RecoveryTest, WholeFilesGiveWhatWasPromised) {
  const auto [promises, lost] =
      recovered(records_, raft_bytes({7, "b", 3, {entry_of(3), entry_of(6)}}));
  EXPECT_EQ(lost, "");
  EXPECT_EQ(promises.term, 7);
  EXPECT_EQ(promises.vote, "b");
  EXPECT_EQ(promises.first_index, 4);
  ASSERT_EQ(promises.entries.size(), 1U) << "that which is not in the records";
  EXPECT_EQ(promises.entries.front().term, 6);
}

TEST_F(RecoveryTest, NoFlippedBitOfTheRaftFileIsTakenForAPromise) {
  const std::string raft = raft_bytes({7, "b", 4, {entry_of(6)}});
  for (std::size_t bit = 0; bit < 8 * raft.size(); ++bit) {
    const auto [promises, lost] = recovered(records_, flipped(raft, bit));
    ASSERT_NE(lost, "") << bit;
    ASSERT_EQ(promises.vote, "") << bit;
    ASSERT_TRUE(promises.entries.empty()) << bit;
  }
}

TEST_F(RecoveryTest, ATermBehindWhichNoneIsLeftIsDamage) {
  EXPECT_EQ(recovered(records_, raft_bytes({kTermMax, "b", 4, {}})).lost, "");
  const auto [promises, lost] = recovered(records_, raft_bytes({kTermMax + 1, "b", 4, {}}));
  EXPECT_EQ(lost, "ledger/raft is damaged");
  EXPECT_EQ(promises.term, 0);
}

TEST_F(RecoveryTest, NoFlippedBitOfTheRecordsGoesUnnoticed) {
  const std::string promised_before = raft_bytes({7, "b", 1, {entry_of(1), entry_of(2)}});
  const std::string appended = raft_bytes({7, "b", 4, {}});
  for (std::size_t bit = 0; bit < 8 * records_.size(); ++bit) {
    const std::string records = flipped(records_, bit);
    EXPECT_NE(recovered(records, appended).lost, "") << bit;
    ASSERT_LT(terms_.size(), 3U) << bit;
    for (std::size_t i = 0; i < terms_.size(); ++i) ASSERT_EQ(terms_[i], i + 1) << bit;
    EXPECT_EQ(recovered(records, promised_before).lost, "") << bit;
  }
}

TEST_F(RecoveryTest, EntriesThatWereNeverSyncedAreMissed) {
  const std::string raft = raft_bytes({7, "b", 4, {}});
  for (std::size_t bytes = 0; bytes < records_.size(); ++bytes) {
    EXPECT_NE(recovered(records_.substr(0, bytes), raft).lost, "") << bytes;
  }
}

TEST_F(RecoveryTest, AMissingRaftFileIsNoPromiseOnlyBeforeTheSecondEntry) {
  EXPECT_NE(recovered(records_, "").lost, "");
  EXPECT_EQ(recovered("", "").lost, "");
}

TEST(CheckedFile, FindsEveryFlippedBitAndEveryCut) {
  const std::string bytes = with_checksum("some content");
  EXPECT_EQ(without_checksum(bytes), "some content");
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string other = bytes;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(without_checksum(other)) << bit;
  }
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_FALSE(without_checksum(bytes.substr(0, size))) << size;
  }
}

TEST(CheckedFile, TakesWhatWasWrittenBeforeThereWereChecksums) {
  EXPECT_EQ(without_checksum("\x08\x07"), "\x08\x07");
  EXPECT_EQ(line_without_checksum("0123abcd\n"), "0123abcd");
  EXPECT_EQ(line_without_checksum("0123abcd\nxxh3 de0b2e03d8dd89e3\n"), std::nullopt);
  EXPECT_EQ(checksum_of_json("{\n  \"rounds\": 3\n}\n"), Checksum::none);
}

TEST(CheckedFile, ALineIsReadByPeopleAndChecked) {
  const std::string line = line_with_checksum("0123abcd");
  EXPECT_EQ(line.substr(0, 9), "0123abcd\n");
  EXPECT_EQ(line_without_checksum(line), "0123abcd");
  for (std::size_t bit = 0; bit < 8 * line.size(); ++bit) {
    std::string other = line;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(line_without_checksum(other)) << bit;
  }
}

TEST(CheckedFile, FindsEveryFlippedBitOfAJsonText) {
  const std::string text =
      json_with_checksum("{\n  \"format\": 1,\n  \"rounds\": 3,\n  \"xxh3\": \"" +
                         std::string(kNoChecksum) + "\"\n}\n");
  EXPECT_EQ(checksum_of_json(text), Checksum::right);
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string other = text;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(checksum_of_json(other), Checksum::wrong) << bit;
  }
}

}  // namespace

}  // namespace causeway::diloco
