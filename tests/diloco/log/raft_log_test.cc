#include "diloco/log/raft_log.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace causeway::diloco {
namespace {

// Entry i is of term i.
class LoggedDisk : public CommittedLog {
 public:
  std::vector<LogEntry> read(Index first, std::size_t count) const override {
    ++reads;
    return entries(first, count);
  }
  static std::vector<LogEntry> entries(Index first, std::size_t count) {
    std::vector<LogEntry> entries(count);
    for (LogEntry& entry : entries) entry.term = first++;
    return entries;
  }
  mutable int reads = 0;
};

TEST(RaftLog, GoesThroughWhatItForgotAgainAndAgainWithoutTheDisk) {
  const LoggedDisk disk;
  const RaftLog log(LoggedDisk::entries(1001, 10), 1001, &disk);
  for (int scan = 0; scan < 3; ++scan) {
    for (Index index = 1; index <= 1010; ++index) ASSERT_EQ(log.at(index).term, index);
    for (Index index = 1010; index >= 1; --index) ASSERT_EQ(log.at(index).term, index);
  }
  EXPECT_EQ(disk.reads, 16);  // 64 at once
}

TEST(RaftLog, ReadsAgainWhatWasInMemoryBefore) {
  const LoggedDisk disk;
  RaftLog log(LoggedDisk::entries(11, 100), 11, &disk);
  EXPECT_EQ(log.at(5).term, 5);
  log.forget_before(51);
  for (Index index = 1; index <= log.last(); ++index) ASSERT_EQ(log.at(index).term, index);
  EXPECT_EQ(log.last(), 110);
}

TEST(RaftLog, KeepsNoMoreOfALongLogThanFits) {
  const LoggedDisk disk;
  const RaftLog log({}, 50'001, &disk);
  for (Index index = 1; index <= 50'000; ++index) ASSERT_EQ(log.at(index).term, index);
  EXPECT_EQ(disk.reads, 782);
  EXPECT_EQ(log.at(1).term, 1);
  EXPECT_EQ(disk.reads, 783);
}

// A joiner was given all of the log, and the run goes on.
TEST(RaftLog, ReleasesWhatItReadAgainOnceNobodyWantsIt) {
  const LoggedDisk disk;
  RaftLog log(LoggedDisk::entries(1001, 10), 1001, &disk);
  const auto grow = [&log](Index count) {
    for (Index grown = 0; grown < count; ++grown) {
      log.push({.term = log.last() + 1, .body = {}});
      log.forget_before(log.last() - 9);
    }
  };
  for (Index index = 1; index <= 1000; ++index) ASSERT_EQ(log.at(index).term, index);
  EXPECT_EQ(disk.reads, 16);
  grow(63);
  EXPECT_EQ(log.at(1).term, 1);
  grow(63);
  EXPECT_EQ(log.at(1).term, 1);
  EXPECT_EQ(disk.reads, 16) << "somebody goes on to want them";
  grow(64);
  EXPECT_EQ(log.at(1).term, 1);
  EXPECT_EQ(disk.reads, 17);
}

RaftLog log_of(const std::vector<Term>& terms) {
  std::vector<LogEntry> entries;
  for (const Term term : terms) entries.push_back({.term = term, .body = {}});
  return {std::move(entries), 1, nullptr};
}

TEST(RaftLog, SendsSoManyEntriesAtOnce) {
  const RaftLog log = log_of(std::vector<Term>(100, 1));
  EXPECT_EQ(log.count_for_message(1), 64U);
  EXPECT_EQ(log.count_for_message(91), 10U);
  EXPECT_EQ(log.count_for_message(101), 0U);
}

TEST(RaftLog, SendsLargeEntriesFewAtOnceAndEachInTheEnd) {
  RaftLog log = log_of({1});
  for (const std::size_t bytes : {600'000, 400'000, 400'000, 3'000'000, 1}) {
    CommitRecord record;
    record.run_id = std::string(bytes, 'r');
    log.push({.term = 1, .body = record});
  }
  EXPECT_EQ(log.count_for_message(1), 3U);
  EXPECT_EQ(log.count_for_message(4), 1U);
  EXPECT_EQ(log.count_for_message(5), 1U) << "larger than a message is to be";
  EXPECT_EQ(log.count_for_message(6), 1U);
}

TEST(RaftLog, IsContradictedOnlyInWhatIsCommitted) {
  const RaftLog log = log_of({1, 1, 2, 3});
  const auto contradicts = [&log](Index previous, Term previous_term, std::vector<Term> terms) {
    std::vector<LogEntry> entries;
    for (const Term term : terms) entries.push_back({.term = term, .body = {}});
    return log.contradicts(previous, previous_term, entries, 3);
  };
  EXPECT_FALSE(contradicts(0, 0, {1, 1, 2, 3, 3}));
  EXPECT_FALSE(contradicts(0, 0, {1, 1, 2, 9})) << "the fourth is not committed";
  EXPECT_FALSE(contradicts(4, 9, {9}));
  EXPECT_TRUE(contradicts(0, 0, {1, 2}));
  EXPECT_TRUE(contradicts(3, 1, {})) << "of another term than it says";
  EXPECT_FALSE(contradicts(3, 2, {9}));
  EXPECT_FALSE(contradicts(5, 3, {9})) << "the one before is not here";
  EXPECT_FALSE(contradicts(~Index{0}, 3, {9}));
}

TEST(RaftLog, IsCoveredByOneThatEndsLater) {
  const RaftLog log = log_of({1, 1, 2});
  EXPECT_TRUE(log.is_covered_by(3, 2));
  EXPECT_TRUE(log.is_covered_by(4, 2));
  EXPECT_FALSE(log.is_covered_by(2, 2));
  EXPECT_FALSE(log.is_covered_by(9, 1)) << "longer, and of an earlier leader";
  EXPECT_TRUE(log.is_covered_by(1, 3));
  EXPECT_TRUE(log_of({}).is_covered_by(0, 0));
}

TEST(RaftLog, FindsWhereATermBegins) {
  const RaftLog log = log_of({1, 2, 2, 2, 3});
  EXPECT_EQ(log.first_of_term(4, 0), 2U);
  EXPECT_EQ(log.first_of_term(4, 2), 3U) << "what is committed is not asked for again";
  EXPECT_EQ(log.first_of_term(5, 0), 5U);
}

}  // namespace
}  // namespace causeway::diloco
