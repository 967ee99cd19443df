// Whose signatures a start checks, and that it does so once.
#include <filesystem>
#include <memory>

#include <gtest/gtest.h>

#include "diloco/ledger/ledger.h"
#include "diloco/ledger/ledger_files.h"
#include "tests/diloco/ledger/ledger_fixture.h"

namespace causeway::diloco {
namespace {

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

// An authority that is replaced brings other keys, and `causeway verify` asks for them.
TEST_F(SignedLedger, WithAnotherKeyHasItsEndSignedAnewToo) {
  write(0, 5);
  std::string mark;
  const auto start = [&] {
    const Ledger ledger(
        path(), [&](const std::string& content) { return content + mark; },
        [&](const std::string& content, const std::string& signature) {
          return signature == content + mark;
        });
    return read_finished(path())->signature == signed_content(ledger.head(), {5, Digest{7}}) + mark;
  };
  open()->save_finished(5, Digest{7});
  for (const char* key : {"!", "?", "?", "!"}) {
    mark = key;
    EXPECT_TRUE(start()) << key;
  }
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

}  // namespace
}  // namespace causeway::diloco
