#include "diloco/log/raft_log.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace causeway::diloco
