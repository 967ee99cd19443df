// Whole coordinators: real TLS, real files, real worker sockets; only the workers' numbers are made
// up.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <nlohmann/json.hpp>

#include "diloco/coordinator/operator_door.h"
#include "diloco/files/error.h"
#include "diloco/ledger/ledger_file.h"
#include "diloco/ledger/ledger_files.h"
#include "inter/blob/spool.h"
#include "inter/tls/signature.h"
#include "tests/diloco/coordinator/run_checks.h"
#include "tests/diloco/coordinator/run_fixture.h"
#include "tests/support/captured_log.h"

namespace causeway::diloco {
namespace {

TEST(Coordinator, ThreeRegionsRunToTheEndWithOneState) {
  TestRun run({"a", "b", "c"}, 5);
  run.start_all();
  expect_complete(run, {"a", "b", "c"}, 5);
}

TEST(Coordinator, ItsLedgerSaysUnderItsSignatureFromWhichStatesItContributed) {
  TestRun run({"a", "b"}, 3);
  run.start_all();
  expect_complete(run, {"a", "b"}, 3);
  const inter::VerifyingKey key(run.certificate("b"));
  Round rounds = 0;
  for (const LedgerEntry& entry : ledger_of(run, "b")) {
    const auto* record = std::get_if<CommitRecord>(&entry.entry.body);
    if (record == nullptr) continue;
    ASSERT_TRUE(entry.own);
    EXPECT_EQ(entry.own->version, record->round);
    EXPECT_EQ(entry.own->state, record->state);
    EXPECT_TRUE(key.verify(signed_content(entry.hash, *entry.own), entry.own_signature));
    EXPECT_FALSE(key.verify(signed_content(entry.hash), entry.own_signature));
    ++rounds;
  }
  EXPECT_EQ(rounds, 3);
}

TEST(Coordinator, ALoneRegionRunsByItself) {
  TestRun run({"a"}, 3);
  run.start_all();
  expect_complete(run, {"a"}, 3);
}

TEST(Coordinator, AWorkerThatDiesBeforeItSavedTheEndIsGivenItAgain) {
  TestRun run({"a"}, 2);
  run.start_worker("a");
  run.worker("a").forget_at(2);
  run.start("a", Start::found);
  expect_complete(run, {"a"}, 2);
  const auto finished = read_finished(run.directory("a") / "ledger");
  ASSERT_TRUE(finished) << "causeway verify would miss it";
  EXPECT_EQ(finished->at.version, 2U);
  EXPECT_EQ(to_hex(finished->at.state), run.worker("a").state());
  EXPECT_FALSE(finished->signature.empty());
}

TEST(Coordinator, ACoordinatorThatDiesMidRoundIsDoneWithoutAndComesBack) {
  TestRun run({"a", "b", "c"}, 8);
  run.start_all({{"a", 6}, {"b", 2}});  // a not further without b
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("b").version() == 2; }));
  run.destroy("b");
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("a").version() >= 4; }));
  run.worker("b").release();
  run.start("b", Start::resume);
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("b").version() >= 4; }));
  run.worker("a").release();
  expect_complete(run, {"a", "b", "c"}, 8);
}

TEST(Coordinator, TheDecidersRestartResumesTheRun) {
  TestRun run({"a", "b"}, 4);
  run.start_all({{"a", 2}});
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("b").version() == 2; }));
  run.destroy("a");
  run.worker("a").release();
  run.start("a", Start::resume);
  expect_complete(run, {"a", "b"}, 4);
}

TEST(Coordinator, ARegionThatLostEverythingJoinsAgain) {
  TestRun run({"a", "b", "c"}, 12);
  run.start_all({{"a", 10}});
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("c").version() >= 2; }));
  run.stop_worker("c");
  run.destroy("c");
  std::filesystem::remove_all(run.directory("c"));
  std::filesystem::create_directories(run.directory("c"));
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("a").version() >= 7; }));
  run.start("c", Start::join);
  run.start_worker("c");
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("c").version() >= 7; }));
  run.worker("a").release();
  expect_complete(run, {"a", "b", "c"}, 12);
}

// Rank 0 of a lone region, by hand.
class ByHand {
 public:
  explicit ByHand(const TestRun& run, Round version = 0, const std::string& run_id = {},
                  bool open_work = false) {
    request_.socket = run.directory("a") / "worker.sock";
    request_.region = "a";
    request_.version = version;
    request_.has_lineage = !run_id.empty();
    request_.run_id = run_id;
    request_.open_work = open_work;
    session_ = WorkerSession::attach(request_, wait_);
  }
  WorkerSession& session() { return *session_; }
  template <typename Order>
  std::optional<Order> told_to() {
    Instruction instruction = session_->next(wait_);
    auto* order = std::get_if<Order>(&instruction);
    return order != nullptr ? std::optional(std::move(*order)) : std::nullopt;
  }
  // Up to the order to apply its record; none: it was told something else.
  std::optional<Train> trains_a_round() {
    std::optional<Train> order = told_to<Train>();
    if (!order) return std::nullopt;
    hand_over(*order);
    return session_->await_stored() && told_to<Apply>() ? order : std::nullopt;
  }
  // By a Train too, where its coordinator's disk works again.
  std::optional<Continue> told_to_step() {
    const Instruction told = session_->next(wait_);
    if (const auto* on = std::get_if<Continue>(&told)) return *on;
    const auto* train = std::get_if<Train>(&told);
    if (train == nullptr) return std::nullopt;
    return Continue{train->round, train->k, train->data_cursor, train->schedule_step, train->share};
  }
  void hand_over(const Train& order) { hand_over(order.round, order.data_cursor); }
  void hand_over(Round round, std::uint64_t cursor, std::uint32_t part = 0,
                 const std::string& region = "a") {
    const std::string payload(2'000'000, 'p');
    session_->hand_over({.run_id = session_->attachment().run_id,
                         .region = region,
                         .round = round,
                         .part = part,
                         .tokens = 1,
                         .data_begin = cursor,
                         .data_cursor = cursor + 8,
                         .payload = {}},
                        SealedBytes(std::as_bytes(std::span(payload))));
  }

 private:
  AttachRequest request_;
  WorkerSession::KeepWaiting wait_ = [](const std::string&) { return true; };
  std::unique_ptr<WorkerSession> session_;
};

bool copies(const TestRun& run) {
  const std::filesystem::directory_iterator files(run.directory("a") / "spool");
  return std::any_of(begin(files), end(files), [](const auto& file) {
    return file.path().filename().string().starts_with("draft-");
  });
}

// A copy may take long, and its worker be lost and back before it ends.
TEST(Coordinator, AWorkerThatCameAnewWhileItsPayloadWasCopiedHandsItOverAgain) {
  asio::io_context copying;
  TestRun run({"a"}, 1);
  run.set_copying(copying.get_executor());
  run.start("a", Start::found);
  auto worker = std::make_unique<ByHand>(run);
  const auto order = worker->told_to<Train>();
  ASSERT_TRUE(order);
  worker->hand_over(*order);
  ASSERT_TRUE(TestRun::eventually([&] { return copies(run); }));
  worker.reset();
  worker = std::make_unique<ByHand>(run);
  EXPECT_FALSE(worker->session().attachment().contributed);
  const auto again = worker->told_to<Train>();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->round, order->round);
  copying.run();  // of the first time: nobody is told
  copying.restart();
  const auto going_on = asio::make_work_guard(copying);
  std::thread thread([&] { copying.run(); });
  worker->hand_over(*again);
  EXPECT_TRUE(worker->session().await_stored());
  EXPECT_TRUE(worker->told_to<Apply>());
  run.destroy("a");
  copying.stop();
  thread.join();
}

// Two disks were mounted the wrong way round, say. It would hand over the same again for ever.
TEST(Coordinator, AWorkerWithAContributionOfAnotherRegionIsToldWhyItIsRefused) {
  TestRun run({"a"}, 1);
  run.start("a", Start::found);
  const auto worker = std::make_unique<ByHand>(run);
  const auto order = worker->told_to<Train>();
  ASSERT_TRUE(order);
  worker->hand_over(order->round, order->data_cursor, 0, "b");
  try {
    worker->session().await_stored();
    ADD_FAILURE() << "it was not refused";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::lineage) << error.what();
    EXPECT_NE(std::string(error.what()).find("a contribution of region b"), std::string::npos)
        << error.what();
  }
}

// The round that the worker is at then is one that it has had no order for.
TEST(Coordinator, AWorkerTrainsOnAlsoIfTheDiskFillsAsItsRoundIsNotedAsApplied) {
  TestRun run({"a"}, 3);
  run.set_on_round([] { throw std::system_error(ENOSPC, std::generic_category(), "write"); });
  run.start("a", Start::found);
  auto worker = std::make_unique<ByHand>(run);
  const auto order = worker->trains_a_round();
  ASSERT_TRUE(order);
  const std::string run_id = worker->session().attachment().run_id;
  worker->session().applied(1, {});
  std::optional<Continue> on;
  for (bool told = false; !told;) {
    try {
      on = worker->told_to_step();
      told = true;
    } catch (const std::system_error&) {  // the coordinator opened anew before it could say so
      worker = std::make_unique<ByHand>(run, 1, run_id);
    }
  }
  ASSERT_TRUE(on);
  EXPECT_EQ(on->round, 1);
  EXPECT_EQ(on->k, 4U);
  EXPECT_EQ(on->schedule_step, 4U);
  EXPECT_EQ(on->data_cursor, order->data_cursor + 8) << "no sample is read twice";
  EXPECT_EQ(on->share, order->share);
}

// It trained on while its coordinator's disk was full, say, which a new process knows nothing of.
TEST(Coordinator, WhatAWorkerDidBeforeItCameAnewIsCollectedAndCountsLate) {
  TestRun run({"a"}, 3);
  run.set_staleness_max(2);
  run.start("a", Start::found);
  auto worker = std::make_unique<ByHand>(run);
  const auto order = worker->trains_a_round();
  ASSERT_TRUE(order);
  const std::string run_id = worker->session().attachment().run_id;
  worker = std::make_unique<ByHand>(run, 0, run_id, true);
  const auto collect = worker->told_to<Collect>();
  ASSERT_TRUE(collect);
  EXPECT_EQ(collect->round, 0U);
  worker->hand_over(0, order->data_cursor + 8, 1);
  ASSERT_TRUE(worker->session().await_stored());
  ASSERT_TRUE(worker->told_to<Apply>());
  worker->session().applied(1, {});
  const auto next = worker->told_to<Train>();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->data_cursor, order->data_cursor + 16);
  worker->hand_over(*next);
  ASSERT_TRUE(worker->session().await_stored());
  const auto apply = worker->told_to<Apply>();
  ASSERT_TRUE(apply);
  std::set<std::pair<Round, std::uint32_t>> listed;
  for (const Participant& one : apply->record.participants) listed.emplace(one.round, one.part);
  EXPECT_EQ(listed, (decltype(listed){{0, 1}, {1, 0}}));
}

// The disk filled as its contribution was stored: it may have trained on from there.
TEST(Coordinator, WhatAWorkerDidAfterAContributionThatWasLostIsCollectedToo) {
  TestRun run({"a"}, 2);
  run.set_staleness_max(2);
  run.start("a", Start::found);
  auto worker = std::make_unique<ByHand>(run, 0, std::string(), true);
  const auto order = worker->told_to<Train>();
  ASSERT_TRUE(order);
  worker->hand_over(*order);
  ASSERT_TRUE(worker->session().await_stored());
  EXPECT_TRUE(worker->told_to<Collect>());
  worker->hand_over(0, order->data_cursor + 8, 1);
  ASSERT_TRUE(worker->session().await_stored());
  EXPECT_TRUE(worker->told_to<Apply>());
}

TEST(Coordinator, AStopEndsItWith130AndItsStateResumes) {
  TestRun run({"a", "b"}, 4);
  run.start_all({{"b", 1}});
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("a").version() == 1; }));
  run.stop("a");
  ASSERT_TRUE(run.outcome("a"));
  EXPECT_EQ(run.outcome("a")->exit_code, 130);
  run.destroy("a");
  run.worker("b").release();
  run.start("a", Start::resume);
  expect_complete(run, {"a", "b"}, 4);
}

TEST(Coordinator, ShowsItselfInItsFiles) {
  TestRun run({"a", "b"}, 3);
  run.start_all();
  expect_complete(run, {"a", "b"}, 3);
  const auto status = nlohmann::json::parse(read(run.directory("b") / "status.json"));
  EXPECT_EQ(status["version"], 3);
  EXPECT_EQ(status["finished"], true);
  EXPECT_EQ(status["progress"]["loss"], 2.0);
  EXPECT_GT(status["wan_tx_bytes"], 3 * 200'000);  // its payloads
  EXPECT_GT(status["links"]["a"]["rx_bytes"], 3 * 200'000);
  EXPECT_EQ(read(run.directory("b") / "listening_port"),
            std::to_string(status["listening_port"].get<int>()) + "\n");

  std::ifstream events(run.directory("b") / "events.jsonl");
  Round round = 0;
  for (std::string line; std::getline(events, line);) {
    const auto event = nlohmann::json::parse(line);
    if (!event.contains("participants")) continue;
    EXPECT_EQ(event["round"], round++);
    EXPECT_EQ(event["listed"], true);
    EXPECT_GT(event["payload_bytes"], 200'000);
  }
  EXPECT_EQ(round, 3);
}

TEST(Coordinator, TrafficCountersGoOnAfterARestart) {
  TestRun run({"a", "b"}, 6);
  run.start_all({{"a", 4}});
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("b").version() == 4; }));
  const auto sent = [&] {
    const auto status = nlohmann::json::parse(read(run.directory("b") / "status.json"));
    return status["wan_tx_bytes"].get<std::uint64_t>();
  };
  ASSERT_TRUE(TestRun::eventually([&] { return sent() > 4 * 200'000; }));
  run.destroy("b");
  const std::uint64_t before = sent();
  run.worker("a").release();
  run.start("b", Start::resume);
  expect_complete(run, {"a", "b"}, 6);
  EXPECT_GT(sent(), before + 200'000);
}

TEST(Coordinator, WhatARemovedRegionCostStillCounts) {
  TestRun run({"a", "b", "c"}, 8);
  run.set_egress_price(1000);
  run.start_all({{"a", 4}, {"b", 4}, {"c", 4}});
  const auto status = [&run] {
    return nlohmann::json::parse(read(run.directory("a") / "status.json"));
  };
  ASSERT_TRUE(TestRun::eventually([&] {
    const auto holds = [&run](const char* region) { return run.worker(region).version() == 4; };
    return holds("a") && holds("b") && holds("c") && status()["version"] == 4;
  }));
  const nlohmann::json before = status();
  int looks = 0;
  ASSERT_TRUE(TestRun::eventually([&] {
    // Again from time to time: there may be no leader now.
    for (const char* region : {"a", "b"}) {
      if (looks % 200 != 0) break;
      ask_coordinator(run.directory(region), {.member = {.region = "c"}, .remove = true});
    }
    ++looks;
    return status()["removed_links"].contains("c");
  }));
  const nlohmann::json after = status();
  EXPECT_FALSE(after["links"].contains("c")) << "no link that is down for ever";
  EXPECT_GE(after["removed_links"]["c"]["tx_bytes"], before["links"]["c"]["tx_bytes"]);
  EXPECT_GE(after["wan_tx_bytes"], before["wan_tx_bytes"]);
  EXPECT_GE(after["egress"]["cost"], before["egress"]["cost"]);
  EXPECT_GT(after["egress"]["cost"], 0);
  for (const char* region : {"a", "b"}) run.worker(region).release();
  expect_complete(run, {"a", "b"}, 8);
  EXPECT_GE(status()["wan_tx_bytes"], after["wan_tx_bytes"]);
  EXPECT_GE(status()["egress"]["cost"], after["egress"]["cost"]);
}

}  // namespace
}  // namespace causeway::diloco
