#include "apps/run/doctor/room_need.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/config/spool_need.h"
#include "apps/run/doctor/checks.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

using testing::HasSubstr;
using testing::Not;

RoomNeed need_with(const std::vector<std::string>& overrides) {
  return room_need(load_text(kSmallConfig, overrides));
}

TEST(RoomNeed, GrowsWithTheRounds) {
  const RoomNeed ten = need_with({});
  EXPECT_EQ(ten.rounds, 10U) << "200 steps, K = 20";
  const RoomNeed thousand = need_with({"train.steps=20000"});
  EXPECT_EQ(thousand.rounds, 1000U);
  EXPECT_EQ(thousand.records, 100 * ten.records);
  EXPECT_EQ(thousand.at_least(), need_with({"train.steps=2000"}).at_least())
      << "the run can begin without the rest";
  EXPECT_EQ(need_with({"train.steps=20000", "sync.warmup_k=5"}).rounds, 1015U)
      << "20 rounds for the 100 steps of the warm-up, in place of 5";
  EXPECT_EQ(need_with({"sync.variant=streaming", "sync.fragments=2", "train.k=20"}).rounds, 20U);
}

TEST(RoomNeed, KnowsThatTheLogOfEncodingsIsBounded) {
  const RoomNeed million = need_with({"train.steps=20000000"});
  const std::uint64_t of_rounds = 1'000'000ULL * (2 * 400 + 1'000);
  EXPECT_EQ(million.records, of_rounds + (48ULL << 20));
}

TEST(RoomNeed, OfTheLongestRunIsNotLessThanOfAShorterOne) {
  const std::string keep = "ledger.keep=all";
  const RoomNeed long_run = need_with({keep, "train.steps=1000000000"});
  const RoomNeed longest = need_with({keep, "train.k=1", "train.steps=9223372036854775807"});
  EXPECT_GT(longest.archive, long_run.archive);
  EXPECT_GT(longest.records, long_run.records);
  EXPECT_GT(longest.at_most(), long_run.at_most());
}

TEST(RoomNeed, CountsTheArchive) {
  const std::string keep = "ledger.keep=all";
  EXPECT_EQ(need_with({}).archive, 0U);
  const SpoolNeed spool = spool_need(load_text(kSmallConfig));
  EXPECT_EQ(need_with({keep}).archive, 10 * 2 * spool.payload_bytes + spool.snapshot_bytes);
  EXPECT_EQ(need_with({keep}).at_most(), need_with({}).at_most() + need_with({keep}).archive);
}

TEST(RoomNeed, SaysWhatItIs) {
  const std::string plain = to_string(need_with({}));
  EXPECT_THAT(plain, HasSubstr("GB of spool, "));
  EXPECT_THAT(plain, HasSubstr(" of training states, and after 10 rounds "));
  EXPECT_THAT(plain, HasSubstr(" of ledger, events.jsonl, tensorboard/ and compression.jsonl"));
  EXPECT_THAT(plain, Not(HasSubstr("archive")));
  EXPECT_THAT(to_string(need_with({"ledger.keep=all"})), HasSubstr(" of archive and "));
  Config program;
  program.regions.resize(2);
  program.keeps_all = true;
  EXPECT_THAT(to_string(room_need(program)), HasSubstr("grows by the payloads of all regions"));
}

TEST(RoomNeed, ThatTheDiskLacksForALaterRoundIsAWarning) {
  const Config config =
      load_text(kSmallConfig, {"ledger.keep=all", "train.steps=200000000", "sync.spool_gib=1"});
  const RoomNeed need = room_need(config);
  ASSERT_GT(need.at_most(), 2 * need.at_least());
  const Findings found = judge_disk({.free_bytes = need.at_most() - 1}, config, ".");
  EXPECT_EQ(found.front().grade, Finding::Grade::warn);
  EXPECT_THAT(found.front().text, HasSubstr("of archive"));
  EXPECT_THAT(found.front().advice, HasSubstr("ledger.keep"));
  EXPECT_EQ(judge_disk({.free_bytes = need.at_most()}, config, ".").front().grade,
            Finding::Grade::ok);
  EXPECT_EQ(judge_disk({.free_bytes = need.at_least() - 1}, config, ".").front().grade,
            Finding::Grade::fail);
}

}  // namespace
}  // namespace causeway::run
