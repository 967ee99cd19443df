// Whole coordinators: real TLS, real files, real worker sockets; only the workers' numbers are made
// up.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <nlohmann/json.hpp>

#include "diloco/log/ledger_file.h"
#include "inter/blob/spool.h"
#include "inter/tls/signature.h"
#include "tests/diloco/coordinator/run_fixture.h"
#include "tests/support/captured_log.h"

namespace causeway::diloco {
namespace {

using testing::TestRun;

std::string read(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::vector<LedgerEntry> ledger_of(const TestRun& run, const std::string& region) {
  const std::filesystem::path ledger = run.directory(region) / "ledger";
  std::string run_id = read(ledger / "run");
  run_id.pop_back();
  return read_ledger(ledger / "records", run_id);
}

// The commit records of a region's ledger, serialized.
std::vector<std::string> records_of(const TestRun& run, const std::string& region) {
  std::vector<std::string> records;
  for (const LedgerEntry& entry : ledger_of(run, region)) {
    const auto* record = std::get_if<CommitRecord>(&entry.entry.body);
    if (record != nullptr) records.push_back(serialize(*record));
  }
  return records;
}

void expect_complete(TestRun& run, const std::vector<std::string>& regions, Round rounds) {
  for (const std::string& region : regions) {
    const auto outcome = run.outcome(region);
    ASSERT_TRUE(outcome) << region << " did not end";
    EXPECT_EQ(outcome->exit_code, 0) << region << ": " << outcome->message;
    EXPECT_TRUE(run.worker(region).finished()) << region << ": " << run.worker(region).error();
    EXPECT_EQ(run.worker(region).version(), rounds) << region;
    EXPECT_EQ(run.worker(region).state(), run.worker(regions.front()).state()) << region;
    EXPECT_EQ(records_of(run, region), records_of(run, regions.front())) << region;
  }
}

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
}

TEST(Coordinator, ACoordinatorThatDiesMidRoundIsDoneWithoutAndComesBack) {
  TestRun run({"a", "b", "c"}, 8);
  run.start_all();
  run.worker("b").hold_at(2);
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("b").version() == 2; }));
  run.destroy("b");
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("a").version() >= 4; }));
  run.worker("a").hold_at(6);  // not without b
  run.worker("b").release();
  run.start("b", Start::resume);
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("b").version() >= 4; }));
  run.worker("a").release();
  expect_complete(run, {"a", "b", "c"}, 8);
}

TEST(Coordinator, TheDecidersRestartResumesTheRun) {
  TestRun run({"a", "b"}, 4);
  run.start_all();
  run.worker("a").hold_at(2);
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("b").version() == 2; }));
  run.destroy("a");
  run.worker("a").release();
  run.start("a", Start::resume);
  expect_complete(run, {"a", "b"}, 4);
}

TEST(Coordinator, ARegionThatLostEverythingJoinsAgain) {
  TestRun run({"a", "b", "c"}, 12);
  run.start_all();
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("c").version() >= 2; }));
  run.stop_worker("c");
  run.destroy("c");
  std::filesystem::remove_all(run.directory("c"));
  std::filesystem::create_directories(run.directory("c"));
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("a").version() >= 7; }));
  run.worker("a").hold_at(10);
  run.start("c", Start::join);
  run.start_worker("c");
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("c").version() >= 7; }));
  run.worker("a").release();
  expect_complete(run, {"a", "b", "c"}, 12);
}

// Rank 0 of a lone region, by hand.
class ByHand {
 public:
  explicit ByHand(const TestRun& run) {
    request_.socket = run.directory("a") / "worker.sock";
    request_.region = "a";
    session_ = WorkerSession::attach(request_, wait_);
  }
  WorkerSession& session() { return *session_; }
  std::optional<Train> told_to_train() {
    const Instruction instruction = session_->next(wait_);
    const auto* train = std::get_if<Train>(&instruction);
    return train != nullptr ? std::optional(*train) : std::nullopt;
  }
  void hand_over(const Train& order) {
    const std::string payload(2'000'000, 'p');
    session_->hand_over({.run_id = session_->attachment().run_id,
                         .region = "a",
                         .round = order.round,
                         .tokens = 1,
                         .data_begin = order.data_cursor,
                         .data_cursor = order.data_cursor + 8,
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
  const auto order = worker->told_to_train();
  ASSERT_TRUE(order);
  worker->hand_over(*order);
  ASSERT_TRUE(TestRun::eventually([&] { return copies(run); }));
  worker.reset();
  worker = std::make_unique<ByHand>(run);
  EXPECT_FALSE(worker->session().attachment().contributed);
  const auto again = worker->told_to_train();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->round, order->round);
  copying.run();  // of the first time: nobody is told
  copying.restart();
  const auto going_on = asio::make_work_guard(copying);
  std::thread thread([&] { copying.run(); });
  worker->hand_over(*again);
  EXPECT_TRUE(worker->session().await_stored());
  const Instruction next = worker->session().next([](const std::string&) { return true; });
  EXPECT_TRUE(std::holds_alternative<Apply>(next));
  run.destroy("a");
  copying.stop();
  thread.join();
}

TEST(Coordinator, AStopEndsItWith130AndItsStateResumes) {
  TestRun run({"a", "b"}, 4);
  run.start_all();
  run.worker("b").hold_at(1);
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("a").version() == 1; }));
  run.stop("a");
  ASSERT_TRUE(run.outcome("a"));
  EXPECT_EQ(run.outcome("a")->exit_code, 130);
  run.destroy("a");
  run.worker("b").release();
  run.start("a", Start::resume);
  expect_complete(run, {"a", "b"}, 4);
}

TEST(Coordinator, AnotherConfigurationIsRefusedWithTheDifference) {
  TestRun run({"a", "b"}, 4);
  run.set_shared_config("a", "model.layers = 4\ntrain.k = 4\n");
  run.set_shared_config("b", "model.layers = 6\ntrain.k = 4\n");
  run.start("b", Start::join);
  run.start("a", Start::found);
  const auto outcome = run.outcome("b");
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, 2);
  EXPECT_NE(outcome->message.find("model.layers = "), std::string::npos) << outcome->message;
  EXPECT_EQ(outcome->message.find("train.k"), std::string::npos) << outcome->message;
}

TEST(Coordinator, ResumingWithoutARunSaysWhatToDo) {
  TestRun run({"a", "b"}, 4);
  run.start("a", Start::resume);
  run.start("b", Start::resume);
  EXPECT_EQ(run.outcome("a")->exit_code, 4);
  EXPECT_NE(run.outcome("a")->message.find("--found"), std::string::npos);
  EXPECT_EQ(run.outcome("b")->exit_code, 4);
  EXPECT_NE(run.outcome("b")->message.find("--join"), std::string::npos);
}

TEST(Coordinator, ThatCannotListenEndsAndLeavesNothingRunning) {
  TestRun run({"a", "b"}, 4);
  run.start("a", Start::found);
  run.collide("b", "a");
  run.start("b", Start::join);
  ASSERT_TRUE(run.is_idle("b"));
  EXPECT_NE(run.outcome("b")->message.find("cannot listen on 127.0.0.1:"), std::string::npos)
      << run.outcome("b")->message;
}

TEST(Coordinator, FoundingOverARunIsRefused) {
  TestRun run({"a"}, 1);
  run.start_all();
  expect_complete(run, {"a"}, 1);
  run.destroy("a");
  run.start("a", Start::found);
  EXPECT_EQ(run.outcome("a")->exit_code, 4);
}

TEST(Coordinator, AnotherRegionsDirectoryIsRefused) {
  TestRun run({"a", "b"}, 2);
  run.start_all();
  expect_complete(run, {"a", "b"}, 2);
  run.destroy("a");
  run.destroy("b");
  std::filesystem::remove_all(run.directory("b"));
  std::filesystem::rename(run.directory("a"), run.directory("b"));
  run.start("b", Start::resume);
  const auto outcome = run.outcome("b");
  ASSERT_TRUE(outcome);
  EXPECT_NE(outcome->message.find("is that of region a"), std::string::npos) << outcome->message;
}

TEST(Coordinator, ARegionOfAnotherRunIsRefused) {
  TestRun run({"a", "b"}, 2);
  run.start_all();
  expect_complete(run, {"a", "b"}, 2);
  run.destroy("a");
  run.destroy("b");
  std::filesystem::remove_all(run.directory("a"));
  run.start("b", Start::resume);
  run.start("a", Start::found);
  const auto outcome = run.outcome("b");
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, 4) << outcome->message;
  EXPECT_NE(outcome->message.find("belongs to run"), std::string::npos) << outcome->message;
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
  run.start_all();
  run.worker("a").hold_at(4);
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

// ---- A full spool ----

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
  run_.start_all();
  run_.worker("a").hold_at(0);
  run_.worker("c").hold_at(0);
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
  run_.start_all();
  run_.worker("b").hold_at(0);
  run_.worker("a").hold_at(1);
  ASSERT_TRUE(TestRun::eventually([&] { return payloads_at_b() == 2; }));
  ASSERT_TRUE(TestRun::eventually([&] { return run_.worker("a").version() == 1; }));
  run_.worker("b").release();
  ASSERT_TRUE(TestRun::eventually([&] { return run_.worker("b").version() == 1; }));
  run_.worker("c").hold_at(4);
  run_.worker("a").hold_at(4);  // not without b
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

// As much room as the configuration must give: four rounds of three regions, and two snapshots.
TEST(Coordinator, ASlowRegionsSpoolHasRoomForWhatItNeedsNext) {
  TestRun run({"a", "b", "c"}, 14);
  run.set_grace_max(std::chrono::seconds(1));
  run.set_spool_bytes_max("b", 4 * 3 * 200'100 + 2 * 100'100);
  run.start_all();
  run.worker("b").hold_at(0);
  run.worker("a").hold_at(12);
  run.worker("c").hold_at(12);
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("a").version() == 12; }));
  run.worker("b").release();
  ASSERT_TRUE(TestRun::eventually([&] { return run.worker("b").version() == 12; }));
  run.worker("a").release();
  run.worker("c").release();
  expect_complete(run, {"a", "b", "c"}, 14);
}

}  // namespace
}  // namespace causeway::diloco
