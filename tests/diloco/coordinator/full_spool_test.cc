// Whole coordinators whose spool has no room.
#include <gtest/gtest.h>

#include <chrono>

#include <nlohmann/json.hpp>

#include "inter/blob/spool.h"
#include "tests/diloco/coordinator/run_checks.h"
#include "tests/diloco/coordinator/run_fixture.h"
#include "tests/support/captured_log.h"

namespace causeway::diloco {
namespace {

// What fills b's spool is nobody's, and goes when the run has made two rounds.
class FullSpool : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kOccupied = 20'000'000;

  FullSpool() : run_({"a", "b", "c"}, 6) {
    run_.set_grace_max(std::chrono::seconds(1));
    inter::Spool(spool(), kOccupied).put(std::vector<std::byte>(kOccupied));
  }
  std::filesystem::path spool() const { return run_.directory("b") / "spool"; }
  // Payloads of other regions, whole.
  std::ptrdiff_t payloads_at_b() const {
    const std::filesystem::directory_iterator files(spool());
    return std::count_if(begin(files), end(files), [](const auto& file) {
      return file.path().extension().empty() && file.file_size() != kOccupied;
    });
  }
  std::string waiting() const {
    const auto status =
        nlohmann::json::parse(read(run_.directory("b") / "status.json"), nullptr, false);
    return status.is_object() ? status.value("waiting", "") : "";
  }

  const test::CapturedLog log_;
  TestRun run_;
};

TEST_F(FullSpool, IsWaitedForAndTheContributionComesWhenThereIsRoom) {
  run_.set_spool_bytes_max("b", kOccupied + 100'000);
  run_.start_all({{"a", 0}, {"c", 0}});
  ASSERT_TRUE(TestRun::eventually([&] {
    return waiting().starts_with("room in its spool for the contribution to round 0: ");
  }));
  run_.destroy("b");
  run_.set_spool_bytes_max("b", 2 * kOccupied);
  run_.start("b", Start::resume);
  ASSERT_TRUE(TestRun::eventually([&] { return payloads_at_b() == 1; }));  // its own
  run_.worker("a").release();
  run_.worker("c").release();
  expect_complete(run_, {"a", "b", "c"}, 6);
  const CommitRecord first = parse_commit_record(records_of(run_, "b").front());
  EXPECT_TRUE(std::ranges::any_of(first.participants,
                                  [](const auto& listed) { return listed.region == "b"; }));
  EXPECT_FALSE(log_.has("its storage")) << "nothing is wrong with the disk";
}

// What is done of it is in the worker's hands; its samples are not read again.
TEST_F(FullSpool, WhoHasNoRoomUntilARoundIsDecidedSitsItOut) {
  run_.set_spool_bytes_max("b", kOccupied + 500'000);
  run_.start_all({{"a", 1}, {"b", 0}, {"c", 4}});
  ASSERT_TRUE(TestRun::eventually([&] { return payloads_at_b() == 2; }));
  ASSERT_TRUE(TestRun::eventually([&] { return run_.worker("a").version() == 1; }));
  run_.worker("b").release();
  ASSERT_TRUE(TestRun::eventually([&] { return run_.worker("b").version() == 1; }));
  run_.worker("a").hold_at(4);  // as c: not without b
  ASSERT_TRUE(TestRun::eventually([&] { return run_.worker("b").version() == 4; }));
  run_.worker("c").release();
  run_.worker("a").release();
  expect_complete(run_, {"a", "b", "c"}, 6);
  EXPECT_TRUE(
      log_.has("b: its spool had no room for the contribution to round 0 before that round was "
               "decided, so it sat the round out"));
  for (const std::string& text : records_of(run_, "b")) {
    const CommitRecord record = parse_commit_record(text);
    for (const Participant& listed : record.participants) {
      if (listed.region != "b") continue;
      EXPECT_GE(listed.data_begin, 8) << "the samples of round 0";
    }
  }
}

// There is room for the shards that b sums, but not for the two sums.
TEST_F(FullSpool, KeepsWhatWasSummedUntilThereIsRoom) {
  run_.shard(300'000);
  run_.set_spool_bytes_max("b", kOccupied + 600'000);
  run_.start_all();
  expect_complete(run_, {"a", "b", "c"}, 6);
  std::vector<std::string> sums = run_.summed_by("b");
  EXPECT_GE(sums.size(), 2U);
  std::ranges::sort(sums);
  EXPECT_EQ(std::ranges::adjacent_find(sums), sums.end()) << "summed again";
  EXPECT_TRUE(log_.has("b kept round 0 waiting for its sums"));
}

// As much room as the configuration must give: four rounds of three regions, and two snapshots.
TEST(Coordinator, ASlowRegionsSpoolHasRoomForWhatItNeedsNext) {
  TestRun run({"a", "b", "c"}, 14);
  run.set_grace_max(std::chrono::seconds(1));
  run.set_spool_bytes_max("b", 4 * 3 * 200'100 + 2 * 100'100);
  run.start_all({{"a", 12}, {"b", 0}, {"c", 12}});
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("a").version() == 12; }));
  run.worker("b").release();
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("b").version() == 12; }));
  run.worker("a").release();
  run.worker("c").release();
  expect_complete(run, {"a", "b", "c"}, 14);
}

}  // namespace
}  // namespace causeway::diloco
