#include "diloco/coordinator/worker_side.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "diloco/files/file_io.h"
#include "tests/diloco/coordinator/attached_worker_fixture.h"
#include "tests/diloco/coordinator/lone_region.h"
#include "tests/support/captured_log.h"

namespace causeway::diloco::testing {
namespace {

class WorkerSideTest : public AttachedWorkerFixture {
 protected:
  // What the region wrote of other data, so far.
  std::vector<std::string> told() const {
    std::vector<std::string> texts;
    const std::string events = read_file(region_.options_.directory / "events.jsonl").value_or("");
    for (std::size_t at = 0; at < events.size();) {
      const std::size_t end = events.find('\n', at);
      const std::string line = events.substr(at, end - at);
      if (line.find("\"other_data\"") != std::string::npos) texts.push_back(line);
      at = end + 1;
    }
    return texts;
  }

  const DataDigest other_{.sample = {1}, .whole = Digest{3}};
};

TEST_F(WorkerSideTest, NamesOtherDataByWhatIsKnownOfBoth) {
  attach(whole_, whole_);
  EXPECT_THAT(told(), ::testing::IsEmpty());
  attach(whole_, other_);
  ASSERT_THAT(told(), ::testing::SizeIs(1));
  EXPECT_THAT(told()[0], ::testing::HasSubstr("now 030000000000, before 020000000000"));
  attach(whole_, {.sample = {7}});
  ASSERT_THAT(told(), ::testing::SizeIs(2));
  EXPECT_THAT(told()[1],
              ::testing::HasSubstr("now a sample: 070000000000, before a sample: 010000000000"));
}

TEST_F(WorkerSideTest, NamesOtherDataOnceAllAreReadAndThenNoMore) {
  attach(whole_, sample_);
  EXPECT_THAT(told(), ::testing::IsEmpty()) << "by the sample they may be the same";
  for (int times = 0; times < 2; ++times) side_.on_data_read({.of_region = other_, .of_run = {}});
  EXPECT_THAT(told(), ::testing::SizeIs(1));
}

TEST_F(WorkerSideTest, MissesAllRanksWhileNoneIsAttached) {
  EXPECT_THAT(side_.missing(), ::testing::ElementsAre(0));
  attach(whole_, whole_);
  EXPECT_THAT(side_.missing(), ::testing::IsEmpty());
  EXPECT_TRUE(side_.is_attached());
  side_.on_worker_lost();
  EXPECT_THAT(side_.missing(), ::testing::ElementsAre(0));
  EXPECT_FALSE(side_.is_attached());
}

// Whoever watches it would take one that waits for one that hangs.
TEST_F(WorkerSideTest, TellsWhetherAWorkerHasReportedSinceItAttached) {
  attach(whole_, whole_);
  EXPECT_FALSE(side_.reported_unix_s());
  side_.on_report(Progress{});
  EXPECT_TRUE(side_.reported_unix_s());
  side_.on_worker_lost();
  attach(whole_, whole_);
  EXPECT_FALSE(side_.reported_unix_s());
}

class SilentWorker : public WorkerSideTest {
 protected:
  void look_for(std::chrono::seconds time) {
    for (const auto end = now_ + time; now_ < end;) {
      now_ += std::chrono::milliseconds(250);
      side_.look_for_silence(now_);
    }
  }
  void report(const std::string& phase) {
    Progress progress;
    progress.set_phase(phase);
    side_.on_report(progress);
  }

  test::CapturedLog log_;
  std::chrono::steady_clock::time_point now_{};
};

TEST_F(SilentWorker, IsToldOfOnceAndWhenItSpeaksAgain) {
  attach(whole_, whole_);
  report("compute");
  look_for(std::chrono::seconds(50));
  EXPECT_EQ(side_.silence(), "");
  EXPECT_EQ(side_.silent_s(), 49U);
  look_for(std::chrono::seconds(100));
  EXPECT_EQ(side_.silence(), "a sign of life from its worker, for 2 min now");
  EXPECT_EQ(log_.count("a: its worker has said nothing for 60 s; its last word was \"compute\""),
            1U)
      << log_.text();
  report("compute");
  EXPECT_EQ(side_.silence(), "");
  EXPECT_EQ(side_.silent_s(), 0U);
  EXPECT_TRUE(log_.has("a: its worker speaks again, after 149 s")) << log_.text();
}

TEST_F(SilentWorker, IsNamedByItsRankWhereThereAreSeveral) {
  region_.options_.workers = 3;
  AttachRequest rank_1;
  rank_1.region = "a";
  side_.on_gathered(rank_1, {0});
  report("compute");
  look_for(std::chrono::seconds(61));
  EXPECT_EQ(side_.silence(), "a sign of life from rank 1 of its 3 workers, for 1 min now");
}

TEST_F(SilentWorker, IsNoneThatHasNotBegunIsGoneOrIsDone) {
  attach(whole_, whole_);
  look_for(std::chrono::minutes(5));
  EXPECT_EQ(side_.silence(), "") << "it may have much to read";
  report("compute");
  look_for(std::chrono::minutes(5));
  EXPECT_NE(side_.silence(), "");
  side_.on_worker_lost();
  look_for(std::chrono::seconds(1));
  EXPECT_EQ(side_.silence(), "");
  attach(whole_, whole_);
  report(kPhaseDone);
  look_for(std::chrono::hours(1));
  EXPECT_EQ(side_.silence(), "");
}

// ---- A program's model ----

TEST(WorkerOfAJoiner, IsToldOfTheRunOnceThereIsALog) {
  LoneRegion region(0, Start::join);
  WorkerSide side(region.context());
  side.open();
  Ledger& ledger = region.directory_.ledger();
  ledger.set_run_id("run-7");
  side.carry_out(WelcomeWorker{.run_id = "run-7"});
  side.on_log();
  EXPECT_TRUE(side.welcomes_later());
  const LogEntry entry{.term = 1, .body = Membership{}};
  ledger.append(std::span(&entry, 1));
  side.on_log();
  EXPECT_FALSE(side.welcomes_later());
  run_in(region.loop_, side.stop());
}

class WorkerOfAProgram : public WorkerSideTest {
 protected:
  void SetUp() override {
    WorkerSideTest::SetUp();
    side_.open();
  }
  void TearDown() override { run(side_.stop()); }

  void attach(const NamedTensors& tensors) {
    region_.options_.model_objection = [this](const NamedTensors&, std::uint32_t save_rounds) {
      return save_rounds > save_rounds_max_ ? std::string("sync.spool_gib: must be more") : "";
    };
    AttachRequest rank_0;
    rank_0.region = "a";
    rank_0.tensors = tensors;
    rank_0.save_rounds = 7;
    side_.on_gathered(rank_0, {});
  }
  void order_round(Round round) { side_.carry_out(OrderTrain{.round = round}); }
  std::uint32_t save_rounds_max_ = 6;
};

TEST_F(WorkerOfAProgram, EndsTheRegionWhereItsModelFindsNoRoom) {
  attach({{.name = "weight", .shape = {8}}});
  EXPECT_FALSE(region_.ending_.outcome()) << "which round it is to make is not known yet";
  order_round(0);
  ASSERT_TRUE(region_.ending_.outcome());
  EXPECT_EQ(region_.ending_.outcome()->exit_code, 2);
  EXPECT_EQ(region_.ending_.outcome()->message, "sync.spool_gib: must be more");
}

TEST_F(WorkerOfAProgram, TakesPartWhereItsModelFindsRoom) {
  save_rounds_max_ = 7;
  attach({{.name = "weight", .shape = {8}}});
  order_round(0);
  EXPECT_FALSE(region_.ending_.outcome());
}

// It may have room enough all the same.
TEST_F(WorkerOfAProgram, GoesOnWithARunThatIsUnderWay) {
  attach({{.name = "weight", .shape = {8}}});
  order_round(1);
  EXPECT_FALSE(region_.ending_.outcome());
}

// The model of `causeway worker` is in the configuration, which was checked.
TEST_F(WorkerOfAProgram, IsNotAskedWhereItNamesNoTensors) {
  attach({});
  EXPECT_FALSE(region_.ending_.outcome());
}

}  // namespace
}  // namespace causeway::diloco::testing
