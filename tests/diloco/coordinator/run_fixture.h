// Coordinators with real TLS on loopback, each in an io_context on a thread of its own, and workers
// on threads that speak to them through WorkerSession. A worker's "training" is a payload of its
// region and round; its state is a hash chain over what it applied.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/io_context.hpp>

#include "diloco/coordinator/coordinator.h"
#include "diloco/worker/worker_session.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/test_pki.h"

namespace causeway::diloco::testing {

constexpr Round kNotHeld = std::numeric_limits<Round>::max();

// A worker that trains, applies and restores until it is told to finish. Its state survives its
// sessions, not its own end.
class FakeWorker {
 public:
  FakeWorker(std::filesystem::path directory, std::string region, Round held_from);
  ~FakeWorker();  // stops it

  // Does not contribute to this round or a later one until released.
  void hold_at(Round round) { held_from_ = round; }
  void release() { held_from_ = kNotHeld; }
  // Dies when it reaches this version, before it saved anything, and begins again.
  void forget_at(Round version) { forgets_at_ = version; }

  Round version() const { return version_; }
  bool finished() const { return finished_; }
  std::string state() const;
  std::string error() const;  // what ended it early; empty if nothing did

 private:
  void run();
  void follow(WorkerSession& session);
  void train(WorkerSession& session, const Train& order, const std::string& run_id);
  void apply(WorkerSession& session, const Apply& order);
  void adopt(WorkerSession& session, Round version, const Digest& state);
  void begin_again();

  const std::filesystem::path directory_;
  const std::string region_;
  std::atomic<bool> stopping_ = false;
  std::atomic<Round> held_from_;
  std::atomic<Round> forgets_at_ = 0;
  std::atomic<Round> version_ = 0;
  std::atomic<bool> finished_ = false;
  mutable std::mutex mutex_;  // of what the test reads
  Digest state_{};
  std::string error_;
  std::string run_id_;
  std::optional<Round> contributed_;
  Progress progress_;
  std::thread thread_;
};

class TestRun {
 public:
  explicit TestRun(std::vector<std::string> regions, Round rounds);
  ~TestRun();

  // The first region decides. Regions are started last name first, because the first name dials.
  void start(const std::string& region, Start start);
  // `held_from`: where workers hold from their first moment on. Told later, one may have passed it.
  void start_all(const std::map<std::string, Round>& held_from = {});
  void start_worker(const std::string& region, Round held_from = kNotHeld);
  // The coordinator goes without a word to anyone, as if killed.
  void destroy(const std::string& region);
  void stop(const std::string& region);
  // Binds the port that another region has.
  void collide(const std::string& region, const std::string& other);
  // Whether the coordinator's context has nothing left to do, waited for.
  bool is_idle(const std::string& region);
  void stop_worker(const std::string& region) { nodes_.at(region).worker.reset(); }

  FakeWorker& worker(const std::string& region) { return *nodes_.at(region).worker; }
  std::filesystem::path directory(const std::string& region) const;
  std::filesystem::path certificate(const std::string& region) const {
    return pki_.credentials(region).certificate;
  }
  // Waits until `condition`, for at most a minute; false if it did not come.
  static bool eventually(const std::function<bool()>& condition);
  // The outcome of a coordinator that ended, waited for.
  std::optional<RunOutcome> outcome(const std::string& region);

  void set_shared_config(const std::string& region, const std::string& text);
  void set_spool_bytes_max(const std::string& region, std::uint64_t bytes);
  // Where coordinators started from now on copy what workers hand over.
  void set_copying(asio::any_io_executor executor) { copying_ = std::move(executor); }
  // What coordinators started from now on call for each round that their worker applied.
  void set_on_round(std::function<void()> on_round) { on_round_ = std::move(on_round); }
  void set_grace_max(std::chrono::milliseconds grace) { grace_max_ = grace; }
  void set_staleness_max(Round rounds) { staleness_max_ = rounds; }
  void set_egress_price(double per_gb) { egress_price_ = per_gb; }
  // All rounds, with three shards of each payload; sums have at least so many bytes.
  void shard(std::size_t sum_bytes = 0) {
    sharded_ = true;
    sum_bytes_ = sum_bytes;
  }
  std::vector<std::string> summed_by(const std::string& region) const;  // in turn

 private:
  ShardTools::Sum sum(const std::string& region, std::span<const ShardTools::Term> terms) const;

  struct Node {
    // Declared in this order so that the coordinator goes before its context.
    std::unique_ptr<asio::io_context> context;
    std::unique_ptr<Coordinator> coordinator;
    std::thread thread;
    std::shared_ptr<std::optional<RunOutcome>>
        outcome;  // written by the thread, read after it ended
    std::shared_ptr<std::atomic<bool>> ended;
    std::unique_ptr<FakeWorker> worker;
    std::uint16_t port = 0;
    std::string shared_config = "train.k = 4\n";
    std::uint64_t spool_bytes_max = 0;
  };

  std::vector<Member> members(const std::string& region) const;
  CoordinatorOptions options(const std::string& region, Start start) const;
  void join(Node& node);

  std::vector<std::string> regions_;
  Round rounds_;
  std::chrono::milliseconds grace_max_{20'000};
  Round staleness_max_ = 0;
  std::optional<double> egress_price_;  // of 10^9 bytes to any region
  bool sharded_ = false;
  std::size_t sum_bytes_ = 0;
  mutable std::mutex mutex_;  // of what threads of coordinators add
  mutable std::map<std::string, std::vector<std::string>> summed_;
  asio::any_io_executor copying_;
  std::function<void()> on_round_ = [] {};
  test::TemporaryDirectory root_;
  test::TestPki pki_;
  std::map<std::string, Node> nodes_;
};

}  // namespace causeway::diloco::testing
