#include "diloco/coordinator/worker_farewell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <asio/co_spawn.hpp>

#include "diloco/worker/last_word.h"
#include "tests/diloco/coordinator/attached_worker_fixture.h"
#include "tests/support/captured_log.h"
#include "tests/support/process_limits.h"

namespace causeway::diloco::testing {
namespace {

// ---- The end of this region's part ----

class RefusedWorker : public AttachedWorkerFixture {
 protected:
  void SetUp() override {
    AttachedWorkerFixture::SetUp();
    side_.open();
    attach(whole_, whole_);
  }
  void TearDown() override { run(side_.stop()); }
  // As the coordinator does that was removed from the run. The session ends with the refusal.
  void end_part() {
    region_.ending_.finish({3, "removed"});
    side_.farewell().refuse(*region_.ending_.outcome());
    if (side_.is_attached()) side_.on_worker_lost();
  }

  std::optional<LastWord> word() const { return last_word(region_.options_.directory); }

  test::CapturedLog log_;
};

TEST_F(RefusedWorker, IsNotWaitedForOnceItHasHeardWhy) {
  end_part();
  run(side_.farewell().await_return_of_refused());
  EXPECT_FALSE(log_.has("its worker, which is away")) << log_.text();
  EXPECT_TRUE(word()) << "for a rank that the others went on without";
}

TEST_F(RefusedWorker, IsWaitedForUntilItIsBackWhereItWasAway) {
  side_.on_worker_lost();
  end_part();
  bool has_waited = false;
  asio::co_spawn(region_.loop_, side_.farewell().await_return_of_refused(),
                 [&](std::exception_ptr) { has_waited = true; });
  region_.loop_.restart();
  while (!log_.has("its worker, which is away")) region_.loop_.run_one();
  attach(whole_, whole_);
  side_.on_worker_lost();
  while (!has_waited) region_.loop_.run_one();
  EXPECT_FALSE(side_.is_attached());
}

// One in the middle of long steps found nobody any more, and waited for ever.
TEST_F(RefusedWorker, FindsANoteWhereItComesBackTooLate) {
  side_.on_worker_lost();
  end_part();
  side_.farewell().cut_short();
  run(side_.farewell().await_return_of_refused());
  ASSERT_TRUE(word());
  EXPECT_EQ(word()->run_id, region_.driver_->protocol().run_id());
  EXPECT_EQ(word()->reason, "removed");
  EXPECT_EQ(word()->kind, Errc::left_out);
}

// ---- The end of a run ----

class WorkerAtTheEnd : public AttachedWorkerFixture {
 protected:
  void SetUp() override {
    AttachedWorkerFixture::SetUp();
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
    is_over = co_await side_.farewell().say_goodbye(
        [this](const std::string& what) { shown_.push_back(what); });
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
  side_.farewell().cut_short();
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
