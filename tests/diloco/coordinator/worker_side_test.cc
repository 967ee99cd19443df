#include "diloco/coordinator/worker_side.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include "diloco/files/file_io.h"
#include "diloco/worker/last_word.h"
#include "tests/diloco/coordinator/lone_region.h"
#include "tests/support/captured_log.h"
#include "tests/support/process_limits.h"

namespace causeway::diloco::testing {
namespace {

void run_in(asio::io_context& loop, asio::awaitable<void> wait) {
  bool done = false;
  asio::co_spawn(loop, std::move(wait), [&](std::exception_ptr) { done = true; });
  loop.restart();
  while (!done) loop.run_one();
}

class WorkerSideTest : public ::testing::Test {
 protected:
  void SetUp() override { region_.begin(); }

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
  void attach(const DataDigest& trained_on, const DataDigest& now) {
    AttachRequest rank_0;
    rank_0.region = "a";
    rank_0.data.of_region = now;
    rank_0.trained_on = trained_on;
    side_.on_gathered(rank_0, {});
  }
  void run(asio::awaitable<void> wait) { run_in(region_.loop_, std::move(wait)); }

  LoneRegion region_;
  WorkerSide side_{region_.context()};
  const DataDigest sample_{.sample = {1}};
  const DataDigest whole_{.sample = {1}, .whole = Digest{2}};
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

// ---- The end of this region's part ----

class RefusedWorker : public WorkerSideTest {
 protected:
  void SetUp() override {
    WorkerSideTest::SetUp();
    side_.open();
    attach(whole_, whole_);
  }
  void TearDown() override { run(side_.stop()); }
  // As the coordinator does that was removed from the run. The session ends with the refusal.
  void end_part() {
    region_.ending_.finish({3, "removed"});
    side_.refuse(*region_.ending_.outcome());
    if (side_.is_attached()) side_.on_worker_lost();
  }

  std::optional<LastWord> word() const { return last_word(region_.options_.directory); }

  test::CapturedLog log_;
};

TEST_F(RefusedWorker, IsNotWaitedForOnceItHasHeardWhy) {
  end_part();
  run(side_.await_return_of_refused());
  EXPECT_FALSE(log_.has("its worker, which is away")) << log_.text();
  EXPECT_FALSE(word());
}

TEST_F(RefusedWorker, IsWaitedForUntilItIsBackWhereItWasAway) {
  side_.on_worker_lost();
  end_part();
  bool has_waited = false;
  asio::co_spawn(region_.loop_, side_.await_return_of_refused(),
                 [&](std::exception_ptr) { has_waited = true; });
  region_.loop_.restart();
  while (!log_.has("its worker, which is away")) region_.loop_.run_one();
  attach(whole_, whole_);
  side_.on_worker_lost();
  while (!has_waited) region_.loop_.run_one();
  EXPECT_FALSE(side_.is_attached());
  EXPECT_FALSE(word());
}

// One in the middle of long steps found nobody any more, and waited for ever.
TEST_F(RefusedWorker, FindsANoteWhereItComesBackTooLate) {
  side_.on_worker_lost();
  end_part();
  side_.cut_goodbye_short();
  run(side_.await_return_of_refused());
  ASSERT_TRUE(word());
  EXPECT_EQ(word()->run_id, region_.driver_->protocol().run_id());
  EXPECT_EQ(word()->reason, "removed");
  EXPECT_EQ(word()->kind, Errc::left_out);
  run(side_.reopen());
  EXPECT_FALSE(word()) << "of a coordinator that takes part again";
}

// ---- The end of a run ----

class WorkerAtTheEnd : public WorkerSideTest {
 protected:
  void SetUp() override {
    WorkerSideTest::SetUp();
    region_.options_.goodbye = std::chrono::milliseconds{0};
    side_.open();
  }
  void TearDown() override { run(side_.stop()); }

  // Whether the coordinator may end; it looks once.
  bool is_seen_off() {
    shown_.clear();
    bool is_over = false;
    run(say_goodbye(is_over));
    return is_over;
  }
  void report(const std::string& phase) {
    Progress progress;
    progress.set_phase(phase);
    side_.on_report(progress);
  }
  // With the run over, that had been told it holds a state of zeros.
  void come_back_with(const Digest& state) {
    region_.ending_.finish({0, ""});
    AttachRequest rank_0;
    rank_0.region = "a";
    rank_0.state = state;
    side_.on_gathered(rank_0, {});
    side_.on_ready(0);
  }
  std::vector<std::string> shown_;  // that it waits for
  asio::awaitable<void> say_goodbye(bool& is_over) {
    is_over =
        co_await side_.say_goodbye([this](const std::string& what) { shown_.push_back(what); });
  }
};

TEST_F(WorkerAtTheEnd, IsWaitedForWhereItDiedBeforeItsResult) {
  attach(whole_, whole_);
  report("apply");
  side_.on_worker_lost();
  EXPECT_FALSE(is_seen_off());
  EXPECT_THAT(shown_, ::testing::ElementsAre(::testing::HasSubstr("yet to write its result")));
}

TEST_F(WorkerAtTheEnd, IsSeenOffOnceItSaysThatItIsDone) {
  attach(whole_, whole_);
  report(kPhaseDone);
  EXPECT_TRUE(is_seen_off());
  EXPECT_THAT(shown_, ::testing::ElementsAre("")) << "it does not wait any more";
}

// While others are waited for.
TEST_F(WorkerAtTheEnd, IsNotMissingOnceItSaidThatItIsDone) {
  const test::CapturedLog log;
  attach(whole_, whole_);
  report(kPhaseDone);
  side_.on_worker_lost();
  EXPECT_THAT(side_.missing(), ::testing::IsEmpty());
  EXPECT_FALSE(log.has("its workers are gone")) << log.text();
}

// Then it ended before it could say so, and does not attach again.
TEST_F(WorkerAtTheEnd, IsSeenOffOnceItsResultIsThere) {
  std::optional<Round> there;
  region_.options_.has_result = [&](const std::string& run_id, Round version) {
    EXPECT_EQ(run_id, region_.directory_.ledger().run_id());
    return version == there;
  };
  attach(whole_, whole_);
  side_.on_worker_lost();
  EXPECT_FALSE(is_seen_off());
  there = 0;
  EXPECT_TRUE(is_seen_off());
}

TEST_F(WorkerAtTheEnd, IsNotWaitedForOnceSomebodyStopsTheCoordinator) {
  region_.options_.goodbye = std::chrono::hours{1};
  attach(whole_, whole_);
  side_.on_worker_lost();
  side_.cut_goodbye_short();
  EXPECT_FALSE(is_seen_off());
}

TEST_F(WorkerAtTheEnd, SignsWhatItComesBackWith) {
  come_back_with(Digest{});
  const auto end = region_.directory_.ledger().finished();
  ASSERT_TRUE(end);
  EXPECT_EQ(*end, Applied{});
}

// Whoever starts both again has the protocol compare them.
TEST_F(WorkerAtTheEnd, SignsTheStateAgreedOnWhereItComesBackWithAnother) {
  region_.options_.goodbye = std::chrono::hours{1};
  come_back_with(Digest{7});
  ASSERT_EQ(region_.directory_.ledger().finished(), Applied{});
  EXPECT_FALSE(is_seen_off());
}

TEST_F(WorkerAtTheEnd, SignsItOnceTheDiskTakesIt) {
  {
    const test::FullDisk full(0);
    come_back_with(Digest{});
  }
  ASSERT_FALSE(region_.directory_.ledger().finished());
  is_seen_off();
  EXPECT_TRUE(region_.directory_.ledger().finished());
}

TEST_F(WorkerAtTheEnd, EndsTheRegionWhereItIsNotTheOneThatThisRegionSigned) {
  attach(whole_, whole_);
  region_.directory_.ledger().save_finished(0, Digest{7});
  side_.carry_out(OrderFinish{0, Digest{}});
  ASSERT_TRUE(region_.ending_.outcome());
  EXPECT_EQ(region_.ending_.outcome()->exit_code, 4);
  EXPECT_THAT(region_.ending_.outcome()->message,
              ::testing::HasSubstr("move checkpoints/ and ledger/finished out of"));
  EXPECT_EQ(region_.directory_.ledger().finished(), (Applied{0, Digest{7}}));
}

TEST_F(WorkerAtTheEnd, IsComparedWhereARoundWasTakenBackBefore) {
  CommitRecord record;
  record.run_id = region_.directory_.ledger().run_id();
  CommitRecord without = record;
  without.withdrawn.emplace_back().region = "a";
  region_.directory_.append({{{.term = 1, .body = record}, {.term = 1, .body = without}}}, {});
  region_.start_driver();
  ASSERT_EQ(region_.driver_->protocol().version(), 1);
  region_.directory_.ledger().save_finished(1, Digest{7});
  side_.carry_out(OrderFinish{1, Digest{}});
  ASSERT_TRUE(region_.ending_.outcome());
  EXPECT_EQ(region_.ending_.outcome()->exit_code, 4);
}

TEST_F(WorkerAtTheEnd, SignsNoSecondStateOnceTheRunIsOver) {
  region_.options_.goodbye = std::chrono::hours{1};
  region_.directory_.ledger().save_finished(0, Digest{7});
  come_back_with(Digest{});
  EXPECT_EQ(region_.directory_.ledger().finished(), (Applied{0, Digest{7}}));
  EXPECT_FALSE(is_seen_off()) << "the next start tells it why";
}

// The others would end meanwhile, and this region would wait for them after its return.
TEST_F(WorkerAtTheEnd, IsNoCauseToLeaveTheRunWhereTheDiskDoesNotTakeItsEndAtOnce) {
  test::CapturedLog log;
  attach(whole_, whole_);
  {
    const test::FullDisk full(0);
    for (int times = 0; times < 2; ++times) side_.carry_out(OrderFinish{0, Digest{}});
  }
  EXPECT_EQ(log.count("cannot write that its worker holds the end"), 1U) << log.text();
  ASSERT_FALSE(region_.directory_.ledger().finished());
  region_.ending_.finish({0, ""});
  is_seen_off();
  EXPECT_EQ(region_.directory_.ledger().finished(), Applied{});
}

// What was signed before cannot be read then, either.
TEST_F(WorkerAtTheEnd, IsNoCauseToLeaveTheRunWhereNoFileCanBeOpened) {
  attach(whole_, whole_);
  region_.directory_.ledger().save_finished(0, Digest{});
  {
    const test::NoMoreFiles no_files;
    side_.carry_out(OrderFinish{0, Digest{}});
  }
  side_.carry_out(OrderFinish{0, Digest{}});
  EXPECT_FALSE(region_.ending_.outcome());
}

// It may be on another host, with its result.
TEST_F(WorkerAtTheEnd, IsNotMissedWhereItDidNotAttachSinceTheCoordinatorBegan) {
  EXPECT_TRUE(is_seen_off());
}

}  // namespace
}  // namespace causeway::diloco::testing
