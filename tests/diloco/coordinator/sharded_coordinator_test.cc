// Whole coordinators whose rounds are sharded: real TLS, real files, real threads that sum.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "diloco/ledger/ledger_file.h"
#include "inter/blob/spool.h"
#include "tests/diloco/coordinator/run_checks.h"
#include "tests/diloco/coordinator/run_fixture.h"
#include "tests/support/captured_log.h"

namespace causeway::diloco {
namespace {

class ShardedCoordinators : public ::testing::Test {
 protected:
  ShardedCoordinators() { run_.shard(); }

  // What `of` made of shard `shard` for a round, in the spool of `region`; empty: it is not there.
  std::filesystem::path shard_in(const std::string& region, const std::string& of, int shard,
                                 Round round) const {
    const std::string begins = "shard " + std::to_string(shard) + " of payload of " + of +
                               " in round " + std::to_string(round);
    for (const auto& file : std::filesystem::directory_iterator(run_.directory(region) / "spool")) {
      const bool whole = file.path().extension().empty();
      if (whole && read(file.path()).starts_with(begins)) return file.path();
    }
    return {};
  }

  const test::CapturedLog log_;
  TestRun run_{{"a", "b", "c"}, 6};
};

TEST_F(ShardedCoordinators, RunToTheEndWithOneStateAndRecordsOfSums) {
  run_.start_all();
  expect_complete(run_, {"a", "b", "c"}, 6);
  for (const std::string& text : records_of(run_, "a")) {
    const CommitRecord record = parse_commit_record(text);
    EXPECT_EQ(record.sums.size(), 3U);
    EXPECT_EQ(record.participants.size(), 3U);
    for (const Participant& one : record.participants) EXPECT_TRUE(one.whole);
  }
}

TEST_F(ShardedCoordinators, OneThatDiesMidRoundIsDoneWithoutAndComesBack) {
  run_.set_grace_max(std::chrono::seconds(1));
  run_.start_all({{"a", 5}, {"b", 2}});  // a not further without b
  ASSERT_TRUE(TestRun::eventually([&] { return run_.worker("b").version() == 2; }));
  run_.destroy("b");
  ASSERT_TRUE(TestRun::eventually([&] { return run_.worker("a").version() >= 4; }));
  run_.worker("b").release();
  run_.start("b", Start::resume);
  ASSERT_TRUE(TestRun::eventually([&] { return run_.worker("b").version() >= 4; }));
  run_.worker("a").release();
  expect_complete(run_, {"a", "b", "c"}, 6);
}

// b sums shard 0, with a. Nothing is summed before c has contributed.
TEST_F(ShardedCoordinators, AShardThatADiskSpoiltIsFetchedAgainBeforeItIsSummed) {
  run_.start_all({{"c", 1}});
  std::filesystem::path file;
  ASSERT_TRUE(TestRun::eventually([&] {
    if (run_.worker("b").version() < 1) return false;
    file = shard_in("b", "a", 0, 1);
    return !file.empty();
  }));
  std::fstream(file, std::ios::in | std::ios::out).seekp(40'000).put('y');
  run_.worker("c").release();
  expect_complete(run_, {"a", "b", "c"}, 6);
  EXPECT_TRUE(log_.has("does not match its name; it is thrown away"));
  for (const std::string& text : records_of(run_, "a"))
    EXPECT_EQ(parse_commit_record(text).participants.size(), 3U);
}

}  // namespace
}  // namespace causeway::diloco
