// Whole coordinators, and a disk that spoils payloads in their spools.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "tests/diloco/coordinator/run_checks.h"
#include "tests/diloco/coordinator/run_fixture.h"
#include "tests/support/captured_log.h"

namespace causeway::diloco {
namespace {

class DamagedBlobs : public ::testing::Test {
 protected:
  const std::vector<std::string> regions_{"a", "b", "c"};

  DamagedBlobs() : run_(regions_, 4) { run_.set_grace_max(std::chrono::seconds(1)); }

  // Round 0 is applied everywhere, and everybody's payloads of it are still there.
  void apply_round_0() {
    run_.start_all({{"a", 1}, {"b", 1}, {"c", 1}});
    for (const std::string& region : regions_)
      ASSERT_TRUE(TestRun::eventually([&] { return run_.worker(region).version() == 1; }));
  }
  // What `of` contributed to round 0, in the spool of `region`; whether it was there.
  bool damage(const std::string& region, const std::string& of) const {
    const std::string begins = "payload of " + of + " in round 0";
    for (const auto& file : std::filesystem::directory_iterator(run_.directory(region) / "spool")) {
      const std::string content = read(file.path());
      if (!content.starts_with(begins)) continue;
      std::fstream(file.path(), std::ios::in | std::ios::out).seekp(100'000).put('y');
      return true;
    }
    return false;
  }
  // Without a state: it needs what it had.
  void begin_workers_again(const std::vector<std::string>& regions) {
    for (const std::string& region : regions) run_.start_worker(region);
  }

  const test::CapturedLog log_;
  TestRun run_;
};

TEST_F(DamagedBlobs, IsFetchedAgainBeforeTheWorkerSeesIt) {
  apply_round_0();
  run_.stop_worker("c");
  ASSERT_TRUE(damage("c", "a"));
  begin_workers_again({"c"});
  for (const std::string& region : regions_) run_.worker(region).release();
  expect_complete(run_, regions_, 4);
  EXPECT_TRUE(log_.has("does not match its name; it is thrown away"));
}

// Whoever is asked for it by a peer looks at it as well, so that it is not sent for ever.
TEST_F(DamagedBlobs, IsTakenFromTheOneThatHasAGoodCopy) {
  apply_round_0();
  run_.stop_worker("c");
  ASSERT_TRUE(damage("c", "a") && damage("a", "a"));
  begin_workers_again({"c"});
  for (const std::string& region : regions_) run_.worker(region).release();
  expect_complete(run_, regions_, 4);
}

TEST_F(DamagedBlobs, WhatNobodyHasIsTakenOutOfItsRound) {
  apply_round_0();
  for (const std::string& region : regions_) run_.stop_worker(region);
  for (const std::string& region : regions_) ASSERT_TRUE(damage(region, "b"));
  begin_workers_again(regions_);
  expect_complete(run_, regions_, 4);
  std::size_t withdrawn = 0;
  for (const std::string& text : records_of(run_, "a")) {
    const CommitRecord record = parse_commit_record(text);
    for (const Participant& one : record.withdrawn) withdrawn += one.region == "b" ? 1 : 0;
    EXPECT_TRUE(record.withdrawn.empty() || record.round == 0);
  }
  EXPECT_EQ(withdrawn, 1U);
  EXPECT_TRUE(log_.has("the run goes on from that round without it"));
}

}  // namespace
}  // namespace causeway::diloco
