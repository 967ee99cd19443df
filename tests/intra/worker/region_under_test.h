// A region's workers on threads of this process, against a FakeRun.
#pragma once

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <functional>
#include <list>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "intra/worker/region_worker.h"
#include "tests/intra/expect_refusal.h"
#include "tests/intra/step/tiny_options.h"
#include "tests/intra/temporary_directory.h"
#include "tests/intra/worker/fake_session.h"

namespace causeway::intra {

inline constexpr std::uint64_t kRounds = 3;
inline constexpr std::uint32_t kSteps = 4;  // K

using Listing = std::vector<FakeRun::Listed>;

// A rank's process died: nothing of it runs on.
struct Killed : std::runtime_error {
  Killed() : std::runtime_error("killed by the test") {}
};

// A region's workers, on its own directory; may be started again and again.
class RegionUnderTest {
 public:
  RegionUnderTest(FakeRun& run, const TemporaryDirectory& directory, std::string name,
                  std::size_t index, std::size_t count, std::uint32_t world = 1)
      : run_(run) {
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      WorkerOptions options = tiny_options(directory);
      options.region = name;
      options.region_index = index;
      options.region_count = count;
      options.rank = rank;
      options.world = world;
      options.directory = directory.path() / name;
      options.train.k = kSteps;
      options.train.steps = kRounds * kSteps;
      options.train.checkpoint_rounds = 1;
      ranks_.emplace_back(options);
    }
  }
  ~RegionUnderTest() { join(); }

  WorkerOptions& options(std::uint32_t rank = 0) { return rank_at(rank).options; }
  void set_all(const std::function<void(WorkerOptions&)>& change) {
    for (Rank& rank : ranks_) change(rank.options);
  }

  void start() {
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) start(rank);
  }
  void start(std::uint32_t index) {
    Rank& rank = rank_at(index);
    if (rank.thread.joinable()) rank.thread.join();
    rank.result.reset();
    rank.failure = nullptr;
    rank.killed = false;
    rank.thread = std::thread([this, &rank] {
      omp_set_num_threads(1);  // there are more ranks than cores
      try {
        RegionWorker worker(
            rank.options, [this, &rank] { return poll(rank); }, run_.attach());
        rank.result = worker.run();
      } catch (...) {
        rank.failure = std::current_exception();
      }
    });
  }
  void join() {
    for (Rank& rank : ranks_) {
      if (rank.thread.joinable()) rank.thread.join();
    }
  }
  void join(std::uint32_t index) { rank_at(index).thread.join(); }

  // Ends soon; as Ctrl-C, or as kill -9.
  void interrupt(bool on = true) { interrupted_ = on; }
  void kill(std::uint32_t index = 0) { rank_at(index).killed = true; }

  // Waits for the end, which must be the run's.
  WorkerResult finished(std::uint32_t index = 0) {
    join();
    Rank& rank = rank_at(index);
    if (rank.failure) std::rethrow_exception(rank.failure);
    return rank.result.value();
  }
  void expect_interrupted() {
    join();
    for (Rank& rank : ranks_) {
      expect_refusal(Errc::interrupted, {"state is saved", "go on"}, [&] {
        if (rank.failure) std::rethrow_exception(rank.failure);
      });
    }
  }
  void expect_killed(std::uint32_t index = 0) {
    join(index);
    EXPECT_THROW(std::rethrow_exception(rank_at(index).failure), Killed);
  }

 private:
  struct Rank {
    explicit Rank(WorkerOptions given) : options(std::move(given)) {}
    WorkerOptions options;
    std::optional<WorkerResult> result;
    std::exception_ptr failure;
    std::atomic<bool> killed = false;
    std::thread thread;
  };

  bool poll(const Rank& rank) const {
    if (rank.killed) throw Killed();
    return interrupted_;
  }
  Rank& rank_at(std::uint32_t index) { return *std::next(ranks_.begin(), index); }

  FakeRun& run_;
  std::list<Rank> ranks_;
  std::atomic<bool> interrupted_ = false;
};

// The end of a run of one region of one rank that nothing disturbed.
inline std::string undisturbed_alone() {
  static const std::string digest = [] {
    const TemporaryDirectory directory;
    FakeRun run({"eu"}, kRounds, kSteps);
    RegionUnderTest eu(run, directory, "eu", 0, 1);
    eu.start();
    return eu.finished().params_digest;
  }();
  return digest;
}

struct Pair {
  std::string eu, us;
};

inline Pair undisturbed_pair(std::uint32_t us_world = 1) {
  const TemporaryDirectory directory;
  FakeRun run({"eu", "us"}, kRounds, kSteps);
  RegionUnderTest eu(run, directory, "eu", 0, 2), us(run, directory, "us", 1, 2, us_world);
  eu.start();
  us.start();
  return {eu.finished().params_digest, us.finished().params_digest};
}

}  // namespace causeway::intra
