// Which records a follower takes for the run's: those that most regions have signed.
#include "apps/run/follow/signed_ledger.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger_file.h"
#include "inter/base/error.h"
#include "inter/tls/signature.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/test_pki.h"

namespace causeway::run {
namespace {

using diloco::CommitRecord;
using diloco::FollowerAnswer;
using diloco::LogEntry;
using diloco::Round;
using testing::HasSubstr;

LogEntry members() {
  return {.term = 1,
          .body = diloco::Membership{.members = {{.region = "a", .incarnation = "1"},
                                                 {.region = "b", .incarnation = "2"},
                                                 {.region = "c", .incarnation = "3"}}}};
}

LogEntry round(Round number, std::uint32_t next_k = 4) {
  CommitRecord record;
  record.run_id = "run-1";
  record.round = number;
  record.next_k = next_k;
  return {.term = 1, .body = record};
}

class SignedLedgerTest : public ::testing::Test {
 protected:
  SignedLedgerTest() {
    inter::add_follower(pki_.path(), "reader");
    context_ = inter::make_tls_context(pki_.credentials("reader"), inter::TlsRole::client);
    run_.emplace(directory_.path(), std::vector<std::string>{"a", "b", "c"}, 2);
  }

  // What a region with this history answers to who has `first` entries. `signer`: whose key signs.
  FollowerAnswer answer(const std::string& region, const std::vector<LogEntry>& history,
                        std::uint64_t first, const std::string& signer = "",
                        const std::string& run_id = "run-1") const {
    FollowerAnswer answer;
    answer.run_id = run_id;
    answer.first = first;
    answer.known = history.size();
    diloco::Digest hash = diloco::chain_start(run_id);
    for (std::size_t i = 0; i < history.size(); ++i) {
      hash = diloco::chain_next(hash, diloco::content_of(history[i]));
      if (i >= first) answer.entries.push_back(history[i]);
    }
    const inter::SigningKey key(pki_.credentials(signer.empty() ? region : signer).key);
    answer.heads.push_back(
        {.region = region,
         .certificate = diloco::read_file(pki_.credentials(region).certificate).value(),
         .entries = history.size(),
         .signature = key.sign(diloco::signed_content(hash))});
    return answer;
  }
  ToldEntries told(const FollowerAnswer& answer) const {
    ToldEntries told;
    run_->add(told, answer);
    return told;
  }
  SignedLedger::Signatures signers(const ToldEntries& told, const FollowerAnswer& answer) const {
    return run_->signers(told, answer, context_);
  }
  std::string failure(const std::function<void()>& act) const {
    try {
      act();
    } catch (const inter::LinkError& error) {
      return error.reason();
    }
    return "";
  }

  test::TestPki pki_{{"a", "b", "c", "stranger"}};
  test::TemporaryDirectory directory_{test::in_memory()};
  inter::TlsContext context_;
  std::optional<SignedLedger> run_;
  const std::vector<LogEntry> history_{members(), round(0), round(1)};
};

TEST_F(SignedLedgerTest, TakesWhatMostRegionsSigned) {
  const FollowerAnswer of_a = answer("a", history_, 0);
  const ToldEntries told = this->told(of_a);
  SignedLedger::Signatures signatures = signers(told, of_a);
  EXPECT_FALSE(run_->enough(signatures)) << "one region's word is no run";
  signatures.merge(signers(told, answer("b", history_, 2)));
  ASSERT_TRUE(run_->enough(signatures));
  run_->take(told, signatures);
  EXPECT_EQ(run_->entries(), 3U);
  EXPECT_EQ(run_->rounds(), 2U);
  EXPECT_EQ(run_->members().members.size(), 3U);
  ASSERT_NE(run_->record(1), nullptr);
  EXPECT_EQ(run_->record(2), nullptr);
}

TEST_F(SignedLedgerTest, GoesOnFromItsDisk) {
  const FollowerAnswer of_a = answer("a", history_, 0);
  run_->take(told(of_a), {});
  const diloco::Digest head = run_->head();
  run_.reset();
  run_.emplace(directory_.path(), std::vector<std::string>{"a", "b", "c"}, 2);
  EXPECT_EQ(run_->run_id(), "run-1");
  EXPECT_EQ(run_->entries(), 3U);
  EXPECT_EQ(run_->head(), head);
  EXPECT_EQ(run_->rounds(), 2U);
}

TEST_F(SignedLedgerTest, ALongLedgerComesInParts) {
  ToldEntries told;
  FollowerAnswer first = answer("a", history_, 0), rest = answer("a", history_, 2);
  first.entries.pop_back();
  run_->add(told, first);
  EXPECT_LT(told.size(), told.known);
  run_->add(told, rest);
  EXPECT_EQ(told.size(), told.known);
  EXPECT_EQ(signers(told, rest).size(), 1U);
  EXPECT_NE(failure([&] { run_->add(told, rest); }), "") << "the same again does not follow";
}

// More of them than fit into memory.
TEST_F(SignedLedgerTest, OfALongRunAPartIsTakenBeforeAllIsHere) {
  std::vector<LogEntry> long_run{members()};
  for (Round number = 0; number < SignedLedger::kToldMax; ++number)
    long_run.push_back(round(number));
  FollowerAnswer part = answer("a", long_run, 0);
  part.known = 1'000'000;
  ToldEntries told = this->told(part);
  EXPECT_FALSE(run_->are_all(told));
  EXPECT_TRUE(run_->are_to_be_taken(told));
  told.hashes_alone = true;
  EXPECT_FALSE(run_->are_to_be_taken(told)) << "whoever tells has signatures of the end alone";
  EXPECT_EQ(signers(told, part).size(), 1U) << "a region signed each entry";
}

// As of another follower's ledger. A liar's fills no memory.
TEST_F(SignedLedgerTest, WhatOnlyTheEndIsSignedOfComesTwice) {
  ToldEntries told;
  told.hashes_alone = true;
  FollowerAnswer all = answer("a", history_, 0);
  run_->add(told, all);
  EXPECT_TRUE(told.entries.empty());
  EXPECT_EQ(told.size(), 3U);
  SignedLedger::Signatures signatures = signers(told, all);
  signatures.merge(signers(told, answer("b", history_, 2)));
  ASSERT_TRUE(run_->enough(signatures));
  run_->expect(told, signatures);
  EXPECT_EQ(run_->entries(), 0U);

  std::vector<LogEntry> forged = history_;
  forged[1] = round(0, 99);
  EXPECT_THAT(failure([&] { this->told(answer("c", forged, 0)); }),
              HasSubstr("another history than the one that was signed"));

  FollowerAnswer part = answer("c", history_, 0);
  part.entries.pop_back();
  ToldEntries first = this->told(part);
  EXPECT_FALSE(run_->are_to_be_taken(first)) << "more will come";
  first.known = 2;
  ASSERT_TRUE(run_->are_to_be_taken(first) && run_->are_expected(first));
  run_->take_expected(first);
  EXPECT_EQ(run_->entries(), 2U);
  EXPECT_TRUE(run_->signatures().empty());

  std::vector<LogEntry> more = history_;
  more.push_back(round(2));
  const ToldEntries rest = this->told(answer("c", more, 2));
  EXPECT_EQ(rest.size(), 1U) << "what comes after them has other signatures";
  ASSERT_TRUE(run_->are_to_be_taken(rest) && run_->are_expected(rest));
  run_->take_expected(rest);
  EXPECT_EQ(run_->entries(), 3U);
  EXPECT_EQ(run_->signatures().size(), 2U);
  const ToldEntries next = this->told(answer("c", more, 3));
  EXPECT_FALSE(run_->are_expected(next));
}

TEST_F(SignedLedgerTest, ALiarWhoseEntriesNobodySignsIsLeftInTheEnd) {
  ToldEntries told;
  told.hashes_alone = true;
  told.run_id = "run-1";
  told.hashes.resize(SignedLedger::kHashesMax - 1);
  FollowerAnswer part{.run_id = "run-1", .first = told.size(), .known = ~std::uint64_t{0}};
  part.entries = {members()};
  run_->add(told, part);
  EXPECT_FALSE(run_->are_to_be_taken(told));
  ++part.first;
  EXPECT_TRUE(told.entries.empty());
  EXPECT_THAT(failure([&] { run_->add(told, part); }),
              HasSubstr("more than 4194304 entries that too few regions have signed"));
}

TEST_F(SignedLedgerTest, KeepsNoRecordsThatAreOfNoUse) {
  run_->forget_before(1);
  run_->take(told(answer("a", history_, 0)), {});
  EXPECT_EQ(run_->rounds(), 2U);
  EXPECT_EQ(run_->record(0), nullptr);
  ASSERT_NE(run_->record(1), nullptr);
  std::vector<LogEntry> more = history_;
  LogEntry withdrawal = round(0);
  std::get<CommitRecord>(withdrawal.body).withdrawn = {{.region = "b"}};
  more.push_back(withdrawal);
  run_->take(told(answer("a", more, 3)), {});
  EXPECT_NE(run_->record(0), nullptr) << "of a round that was taken back all is of use";
}

// A state that is damaged, or a region that is gone, is no reason to wait for a newer snapshot.
TEST_F(SignedLedgerTest, KeepsSomeRecordsBeforeAStateThatIsToBeBegunWith) {
  constexpr Round kEarlier = 10, kRounds = SignedLedger::kBeforeState + kEarlier;
  std::vector<LogEntry> long_run{members()};
  for (Round number = 0; number < kRounds; ++number) long_run.push_back(round(number));
  run_->take(told(answer("a", long_run, 0)), {});
  run_.reset();
  run_.emplace(directory_.path(), std::vector<std::string>{"a", "b", "c"}, 2, kRounds - 1);
  EXPECT_EQ(run_->rounds(), kRounds);
  EXPECT_EQ(run_->record(kEarlier - 2), nullptr);
  EXPECT_NE(run_->record(kEarlier - 1), nullptr);
  run_->forget_long_before(1'000'000'000);
  EXPECT_EQ(run_->record(kEarlier - 1), nullptr);
  EXPECT_NE(run_->record(kEarlier), nullptr) << "a region may lie about what it has";
  long_run.push_back(round(kRounds));
  run_->take(told(answer("a", long_run, 1 + kRounds)), {});
  EXPECT_NE(run_->record(kRounds), nullptr) << "a new record is of use, whatever was said";
}

TEST_F(SignedLedgerTest, KeepsTheSignaturesForWhoeverFollowsIt) {
  const FollowerAnswer of_a = answer("a", history_, 0);
  run_->take(told(of_a), signers(told(of_a), of_a));
  run_.reset();
  run_.emplace(directory_.path(), std::vector<std::string>{"a", "b", "c"}, 2);
  ASSERT_EQ(run_->signatures().size(), 1U);
  EXPECT_EQ(run_->signatures().at("a").signature, of_a.heads[0].signature);
}

TEST_F(SignedLedgerTest, WhatADiskDamagedIsFetchedAgain) {
  run_->take(told(answer("a", history_, 0)), {});
  run_.reset();
  const auto records = directory_.path() / "ledger" / "records";
  std::string bytes = diloco::read_file(records).value();
  bytes[20] ^= 1;
  diloco::replace_file(records, bytes, diloco::Durability::visible);
  run_.emplace(directory_.path(), std::vector<std::string>{"a", "b", "c"}, 2);
  EXPECT_EQ(run_->entries(), 0U);
  EXPECT_EQ(run_->run_id(), "");
}

TEST_F(SignedLedgerTest, ALiarWithAHistoryOfItsOwnStandsAlone) {
  std::vector<LogEntry> forged = history_;
  forged[2] = round(1, 99);
  const FollowerAnswer of_liar = answer("a", forged, 0);
  const ToldEntries told = this->told(of_liar);
  const SignedLedger::Signatures signatures = signers(told, of_liar);
  EXPECT_FALSE(run_->enough(signatures));
  for (const std::uint64_t first : {0, 1, 2})
    EXPECT_THAT(failure([&] { signers(told, answer("b", history_, first)); }),
                HasSubstr("its history is another one"))
        << first;
}

TEST_F(SignedLedgerTest, SignaturesOfOthersAndForgedOnesDoNotCount) {
  const FollowerAnswer of_a = answer("a", history_, 0);
  const ToldEntries told = this->told(of_a);
  EXPECT_TRUE(signers(told, answer("stranger", history_, 0)).empty()) << "nobody configured it";
  EXPECT_THAT(failure([&] { signers(told, answer("b", history_, 0, "a")); }),
              HasSubstr("the signature that it gives for"));
  FollowerAnswer disguised = answer("b", history_, 0, "a");
  disguised.heads[0].certificate = of_a.heads[0].certificate;
  EXPECT_THAT(failure([&] { signers(told, disguised); }), HasSubstr("is not"));
  const test::TestPki foreign({"b"});
  FollowerAnswer elsewhere = answer("b", history_, 0);
  elsewhere.heads[0].certificate = diloco::read_file(foreign.credentials("b").certificate).value();
  EXPECT_THAT(failure([&] { signers(told, elsewhere); }), HasSubstr("is not"));
}

TEST_F(SignedLedgerTest, AnOlderSignatureDoesNotCoverWhatCameAfterIt) {
  const std::vector<LogEntry> older(history_.begin(), history_.end() - 1);
  const ToldEntries told = this->told(answer("a", history_, 0));
  EXPECT_TRUE(signers(told, answer("b", older, 0)).empty());
  std::vector<LogEntry> newer = history_;
  newer.push_back(round(2));
  EXPECT_TRUE(signers(told, answer("b", newer, 1)).empty())
      << "whoever gets it from us could not check it";
}

TEST_F(SignedLedgerTest, ARoundThatIsTakenBackVoidsThoseBehindIt) {
  run_->take(told(answer("a", history_, 0)), {});
  EXPECT_FALSE(run_->take_back());
  std::vector<LogEntry> more = history_;
  LogEntry withdrawal = round(0);
  std::get<CommitRecord>(withdrawal.body).withdrawn = {{.region = "b"}};
  more.push_back(withdrawal);
  run_->take(told(answer("a", more, 3)), {});
  EXPECT_EQ(run_->take_back(), 0U);
  EXPECT_FALSE(run_->take_back()) << "told once";
  EXPECT_EQ(run_->rounds(), 1U);
  EXPECT_EQ(run_->record(1), nullptr);
}

TEST_F(SignedLedgerTest, AnAnswerToAnotherQuestionIsNone) {
  EXPECT_NE(failure([&] { told(answer("a", history_, 1)); }), "");
}

}  // namespace
}  // namespace causeway::run
