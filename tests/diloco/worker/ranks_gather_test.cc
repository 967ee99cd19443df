// Which ranks a region gathers, and whom it refuses, over the Unix socket and over TLS alike
// (worker_server_test.cc).
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "diloco/files/error.h"
#include "tests/diloco/worker/worker_server_fixture.h"
#include "tests/support/captured_log.h"

namespace causeway::diloco {
namespace {

TEST_P(WorkerServerTest, GathersAllRanksUnderAFreshName) {
  start(2);
  auto second = std::async(std::launch::async, [this] { return attach(1, 2); });
  const auto first = attach(0, 2);
  const auto other = second.get();
  EXPECT_EQ(first->attachment().generation, other->attachment().generation);
  EXPECT_EQ(first->attachment().run_id, "run");
  EXPECT_EQ(first->attachment().settings, "codec.feedback = true\n");
  EXPECT_FALSE(first->lost());
}

TEST_P(WorkerServerTest, RefusesARankWithOtherSettingsAndGathersTheRest) {
  start(1);
  AttachRequest other = request(0, 1);
  other.settings = "inner.lr = 2\n";
  try {
    WorkerSession::attach(other, keep);
    FAIL() << "it was taken";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::config_mismatch);
    EXPECT_NE(std::string(error.what()).find("inner.lr = 1 here, 2 there"), std::string::npos);
  }
  other.settings = "inner.lr = 1\n";
  EXPECT_FALSE(WorkerSession::attach(other, keep)->lost());
  on_server([&] {
    EXPECT_EQ(script_.attached.size(), 1U);
    EXPECT_EQ(script_.attached.front().settings, "inner.lr = 1\n");
    return 0;
  });
}

TEST_P(WorkerServerTest, RefusesARankThatReadsOtherDataThanTheOthers) {
  start(2);
  AttachRequest first = request(0, 2), second = request(1, 2);
  first.data.of_region = DataDigest{.sample = {1}};
  second.data.of_region = DataDigest{.sample = {2}};
  std::promise<void> there;
  bool told = false;
  auto waiting = std::async(std::launch::async, [&] {
    return WorkerSession::attach(first, [&](const std::string& what) {
      const bool first_word = what.starts_with("rank 1") && !std::exchange(told, true);
      if (first_word) there.set_value();
      return true;
    });
  });
  there.get_future().get();
  try {
    const auto gathered = WorkerSession::attach(second, keep);
    FAIL() << "it was taken";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::config_mismatch);
    EXPECT_NE(std::string(error.what()).find("reads other training data"), std::string::npos);
  }
  second.data.of_region = DataDigest{.sample = {1}};
  const auto other = WorkerSession::attach(second, keep);
  EXPECT_EQ(waiting.get()->attachment().generation, other->attachment().generation);
}

// Of the same sample, and other bytes in between.
TEST_P(WorkerServerTest, RefusesARankThatTurnsOutToReadOtherData) {
  start(2);
  const DataDigest sample{.sample = {1}};
  AttachRequest first = request(0, 2), second = request(1, 2);
  first.data = second.data = {.of_region = sample, .of_run = sample};
  auto waiting = std::async(std::launch::async, [&] { return WorkerSession::attach(first, keep); });
  const auto other = WorkerSession::attach(second, keep);
  const auto leader = waiting.get();
  const auto read = [&](std::uint8_t whole) {
    const DataDigest data{.sample = {1}, .whole = Digest{whole}};
    return DataDigests{.of_region = data, .of_run = data};
  };
  script_.answer = [this] { script_.server->train({.round = 3, .k = 1}); };
  leader->data_read(read(7));
  EXPECT_TRUE(std::holds_alternative<Train>(leader->next(keep)));
  EXPECT_EQ(on_server([&] { return script_.data; }), read(7));
  other->data_read(read(8));
  EXPECT_THROW(
      {
        for (;;) leader->next(keep);
      },
      std::system_error)
      << "the gathering ends for all";
  EXPECT_TRUE(other->lost());
}

// A coordinator that loses every session is not asked as fast as it answers.
TEST_P(WorkerServerTest, AWorkerThatLostSessionsInARowPausesBeforeItAttaches) {
  start(1);
  AttachRequest lost = request(0, 1);
  lost.sessions_lost = 1;
  WorkerSession::attach(lost, keep);
  lost.sessions_lost = 2;
  try {
    WorkerSession::attach(lost, [](const std::string&) { return false; });
    ADD_FAILURE() << "it attached at once";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_canceled);
  }
  on_server([&] { EXPECT_EQ(script_.attached.size(), 1U); });
}

// It dies as it begins, and is started again each time.
TEST_P(WorkerServerTest, ARankThatEndsOneGatheringAfterTheOtherIsNamed) {
  test::CapturedLog log;
  start(2);
  for (int i = 1; i <= 4; ++i) {
    auto second = std::async(std::launch::async, [this] { return attach(1, 2); });
    const auto first = attach(0, 2);
    second.get().reset();
    EXPECT_THROW(first->next(keep), std::system_error);
    EXPECT_EQ(log.has("gatherings of the ranks in a row"), i == 4) << i;
  }
  EXPECT_TRUE(
      log.has("eu: 4 gatherings of the ranks in a row ended before anything was contributed. "
              "First to leave: rank 1 4 times. Their logs say why"));
  EXPECT_TRUE(log.has("when it has been away for 3600 s (train.rank_wait_s)"));
}

// It may be the one that meets nobody any more which is seen to leave first.
TEST_P(WorkerServerTest, OfRanksThatEndGatheringsEachIsNamedWithHowOften) {
  test::CapturedLog log;
  start(2);
  for (int i = 1; i <= 4; ++i) {
    auto second = std::async(std::launch::async, [this] { return attach(1, 2); });
    auto first = attach(0, 2);
    auto other = second.get();
    (i == 2 ? first : other).reset();
    while (script_.lost < i) std::this_thread::yield();
  }
  EXPECT_TRUE(log.has("First to leave: rank 0 once, rank 1 3 times. Their logs say why"));
}

TEST_P(WorkerServerTest, HearsWhatItsStateWasTrainedOn) {
  start(1);
  AttachRequest changed = request(0, 1);
  changed.data.of_region = DataDigest{.sample = {1}};
  changed.trained_on = DataDigest{.sample = {1}, .whole = Digest{2}};
  WorkerSession::attach(changed, keep);
  WorkerSession::attach(request(0, 1), keep);
  on_server([&] {
    ASSERT_EQ(script_.attached.size(), 2U);
    EXPECT_EQ(script_.attached.front().trained_on, changed.trained_on);
    EXPECT_FALSE(script_.attached.back().trained_on);
  });
}

TEST_P(WorkerServerTest, HearsWhatAProgramTrainsAndHowOftenItSaves) {
  start(1);
  AttachRequest program = request(0, 1);
  program.tensors = {{.name = "weight", .shape = {2, 3}}};
  program.save_rounds = 7;
  WorkerSession::attach(program, keep);
  on_server([&] {
    ASSERT_EQ(script_.attached.size(), 1U);
    EXPECT_EQ(script_.attached.front().tensors, program.tensors);
    EXPECT_EQ(script_.attached.front().save_rounds, 7U);
  });
}

TEST_P(WorkerServerTest, EndsTheGatheringForAllWhenOneRankGoes) {
  start(2);
  auto second = std::async(std::launch::async, [this] { return attach(1, 2); });
  auto first = attach(0, 2);
  auto other = second.get();
  const std::string generation = first->attachment().generation;
  other.reset();
  try {
    first->next(keep);
    FAIL() << "the session goes on";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::coordinator_lost);
  }
  EXPECT_TRUE(first->lost());

  second = std::async(std::launch::async, [this] { return attach(1, 2); });
  first = attach(0, 2);
  EXPECT_NE(first->attachment().generation, generation);
  other = second.get();
  EXPECT_EQ(script_.lost, 1);
}

// Ranks that come late may find that others have begun without them. Whoever is in too small a
// gathering asks what to do, until so many are together.
class LateRanks : public WorkerServerTest {
 protected:
  void start(std::uint32_t workers, std::chrono::milliseconds rank_wait) {
    workers_ = workers;
    WorkerServerTest::start(workers, rank_wait);
    on_server([this] {
      script_.answer = [this] { server_->finish(3); };
      return 0;
    });
  }
  std::unique_ptr<WorkerSession> together(std::uint32_t world, std::uint32_t rank,
                                          std::unique_ptr<WorkerSession> session = nullptr) {
    while (!session || session->attachment().world < world) {
      try {
        if (session) session->next(keep);
        if (!session) session = attach(rank, workers_);
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code(), Errc::coordinator_lost);
        session.reset();
      }
    }
    return session;
  }
  std::uint32_t workers_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Over, LateRanks, both_transports(), name_of);

TEST_P(LateRanks, TheOthersGoOnWithoutOneThatDoesNotCome) {
  start(3, std::chrono::milliseconds(50));
  auto last = std::async(std::launch::async, [this] { return together(2, 2); });
  const auto first = together(2, 1);
  const auto other = last.get();
  EXPECT_EQ(first->attachment().rank, 0);
  EXPECT_EQ(other->attachment().rank, 1);
  EXPECT_EQ(first->attachment().world, 2);
  EXPECT_EQ(other->attachment().world, 2);
  on_server([&] {
    EXPECT_EQ(script_.missing, std::vector<std::uint32_t>{0});
    EXPECT_EQ(script_.attached.back().rank, 1) << "the first that is there speaks for the region";
    return 0;
  });
}

TEST_P(LateRanks, AreTakenInWhenTheOthersAskWhatToDo) {
  start(2, std::chrono::milliseconds(200));
  auto early = attach(1, 2);
  EXPECT_EQ(early->attachment().world, 1);
  auto late = std::async(std::launch::async, [this] { return together(2, 0); });
  early = together(2, 1, std::move(early));
  const auto returned = late.get();
  EXPECT_EQ(early->attachment().rank, 1);
  EXPECT_EQ(returned->attachment().rank, 0);
  EXPECT_EQ(returned->attachment().generation, early->attachment().generation);
  on_server([&] {
    EXPECT_TRUE(script_.missing.empty());
    return 0;
  });
}

TEST_P(WorkerServerTest, ARestartedRankReplacesTheOldGathering) {
  const test::CapturedLog log;
  start(1);
  const auto old = attach(0, 1);
  EXPECT_FALSE(log.has("a worker of rank 0 attaches in the place of one"));
  const auto fresh = attach(0, 1);
  EXPECT_TRUE(log.has("a worker of rank 0 attaches in the place of one")) << "two may run";
  EXPECT_TRUE(old->lost());
  EXPECT_FALSE(fresh->lost());
}

TEST_P(WorkerServerTest, RefusesAWorkerOfAnotherShape) {
  start(1);
  EXPECT_THROW(attach(0, 2), std::system_error);
  EXPECT_THROW(attach(1, 1), std::system_error);
}

TEST_P(WorkerServerTest, SaysWhyTheRegionTakesNoPartAnyMore) {
  for (const Errc kind : {Errc::config_mismatch, Errc::left_out, Errc::lineage}) {
    if (!server_) start(1);
    const auto session = attach(0, 1);
    on_server([&] { return server_->refuse("because", kind), 0; });
    try {
      session->next(keep);
      FAIL() << "it was given an instruction";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), kind);
      EXPECT_TRUE(std::string(error.what()).starts_with("because")) << error.what();
    }
  }
}

TEST_P(WorkerServerTest, ARefusalIsHeardByAWorkerThatFindsOutWhileItSends) {
  start(1);
  const auto session = attach(0, 1);
  on_server([&] { return server_->refuse("because", Errc::left_out), 0; });
  while (!session->lost()) std::this_thread::yield();
  try {
    for (;;) session->applied(1, {});
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::left_out) << error.what();
  }
}

}  // namespace
}  // namespace causeway::diloco
