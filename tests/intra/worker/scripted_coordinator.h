// A real worker socket whose coordinator follows a script.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <asio/co_spawn.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/use_future.hpp>

#include "diloco/files/error.h"
#include "diloco/worker/worker_server.h"
#include "intra/worker/worker.h"
#include "tests/intra/temporary_directory.h"

namespace causeway {

inline constexpr const char* kSettings =
    "codec.matrix = \"dense:fp32\"\ncodec.vector = \"dense:fp32\"\nouter.optimizer = \"sgd\"\n"
    "outer.lr = 1.0\nregions.name = [\"eu\", \"us\"]\nmodel.width = 32\n";

// Gives the next instruction of its script to each ready worker.
class Coordinator : public diloco::WorkerServerHandler {
 public:
  explicit Coordinator(const std::filesystem::path& directory, const std::string& more = {})
      : directory_(directory),
        server_(context_.get_executor(),
                {.socket = directory / "worker.sock", .region = "eu", .settings = kSettings + more},
                *this) {
    server_.start();
    thread_ = std::thread([this] { context_.run(); });
  }
  ~Coordinator() override {
    asio::co_spawn(context_, server_.stop(), asio::use_future).get();
    work_.reset();
    thread_.join();
  }

  using Tell = std::function<void(diloco::WorkerServer&)>;
  void follow(std::deque<Tell> script) {
    on_server([&] { script_ = std::move(script); });
  }
  void refuse_next() {
    on_server([&] { full_ = true; });
  }
  std::vector<diloco::Contribution> contributions() {
    std::vector<diloco::Contribution> seen;
    on_server([&] { seen = contributions_; });
    return seen;
  }

  // Which it lacks, and which it was offered.
  void wants_snapshots_from(diloco::Round version) {
    on_server([&] { snapshots_from_ = version; });
  }
  std::vector<diloco::Round> snapshots() {
    std::vector<diloco::Round> seen;
    on_server([&] { seen = snapshots_; });
    return seen;
  }
  std::vector<diloco::AttachRequest> requests() {
    std::vector<diloco::AttachRequest> seen;
    on_server([&] { seen = requests_; });
    return seen;
  }
  // That the worker took since its version, each time that it asked.
  std::vector<std::uint32_t> steps() {
    std::vector<std::uint32_t> seen;
    on_server([&] { seen = steps_; });
    return seen;
  }
  std::vector<diloco::Progress> reports() {
    std::vector<diloco::Progress> seen;
    on_server([&] { seen = reports_; });
    return seen;
  }

  // Lists everything that was contributed and is not listed yet.
  Tell apply_all(const std::string& run_id = "run") {
    return [this, run_id](diloco::WorkerServer& server) {
      diloco::CommitRecord record{.run_id = run_id, .round = version_, .participants = {}};
      record.state = state_;
      record.expired_before = version_ + 1;
      std::vector<std::filesystem::path> files;
      for (auto& [made, file] : open_) {
        record.participants.push_back({"eu", made.round, made.part, 1.0F, made.data_begin,
                                       made.data_cursor, made.tokens, made.payload});
        files.push_back(file);
      }
      open_.clear();
      server.apply(record, files);
    };
  }

  void on_gathered(const diloco::AttachRequest& rank_0,
                   const std::vector<std::uint32_t>&) override {
    version_ = rank_0.version;
    state_ = rank_0.state;
    requests_.push_back(rank_0);
    server_.welcome("run", false, false, snapshots_from_);
  }
  void on_worker_lost() override {}
  void on_ready(std::uint32_t steps) override {
    steps_.push_back(steps);
    ASSERT_FALSE(script_.empty());
    const Tell tell = script_.front();
    script_.pop_front();
    tell(server_);
  }
  void on_contribute(const diloco::Contribution& made, diloco::Descriptor payload) override {
    contributions_.push_back(made);
    if (std::exchange(full_, false)) return server_.not_stored();
    if (!made.sits_out) {
      const auto file = directory_ / ("payload-" + std::to_string(contributions_.size()));
      std::filesystem::copy_file("/proc/self/fd/" + std::to_string(payload.get()), file,
                                 std::filesystem::copy_options::overwrite_existing);
      open_.emplace_back(made, file);
      const std::uint64_t size = std::filesystem::file_size(file);
      const diloco::MappedBytes content(payload.release(), size);
      open_.back().first.payload = {diloco::tree_hash(content.bytes()), size};
    }
    server_.stored();
  }
  void on_applied(diloco::Round now, const diloco::Digest& digest) override {
    version_ = now;
    state_ = digest;
  }
  void on_snapshot(diloco::Round version, const diloco::Digest& state,
                   diloco::Descriptor) override {
    EXPECT_TRUE(version != version_ || state == state_);
    snapshots_.push_back(version);
  }
  void on_report(const diloco::Progress& progress) override { reports_.push_back(progress); }

 private:
  void on_server(const std::function<void()>& call) {
    const auto run = [&call]() -> asio::awaitable<void> {
      call();
      co_return;
    };
    asio::co_spawn(context_, run(), asio::use_future).get();
  }

  std::filesystem::path directory_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  diloco::WorkerServer server_;
  std::deque<Tell> script_;
  std::vector<diloco::Contribution> contributions_;
  std::vector<diloco::AttachRequest> requests_;
  diloco::Round snapshots_from_ = 0;
  std::vector<diloco::Round> snapshots_;
  std::vector<diloco::Progress> reports_;
  std::vector<std::uint32_t> steps_;
  bool full_ = false;
  diloco::Round version_ = 0;
  diloco::Digest state_{};
  std::vector<std::pair<diloco::Contribution, std::filesystem::path>> open_;
  std::thread thread_;
};

inline Coordinator::Tell train(diloco::Round round, std::uint64_t cursor = 0) {
  return [=](diloco::WorkerServer& server) { server.train({round, 4, cursor, 4 * round}); };
}
inline Coordinator::Tell go_on(diloco::Round round, std::uint64_t cursor) {
  return [=](diloco::WorkerServer& server) {
    server.continue_training({round, 2, cursor, 4 * round});
  };
}
inline Coordinator::Tell collect(diloco::Round round) {
  return [=](diloco::WorkerServer& server) { server.collect(round); };
}
inline Coordinator::Tell finish(diloco::Round version) {
  return [=](diloco::WorkerServer& server) { server.finish(version); };
}

// A vector before a matrix: the flat layout has them the other way round, and padded.
inline WorkerSettings settings(const intra::TemporaryDirectory& directory) {
  return {.region = "eu",
          .directory = directory.path(),
          .tensors = {{"bias", {3}}, {"weight", {2, 2}}},
          .samples_per_step = 10,
          .tokens_per_step = 100};
}

inline const std::vector<float> kInitial{1, 2, 3, 4, 5, 6, 7};

inline void add(std::vector<float>& params, float step) {
  for (float& value : params) value += step;
}

// Takes all steps that the worker asks for next, and adds `change` to each parameter.
inline void take_steps(Worker& worker, std::vector<float>& params, float change) {
  const auto steps = worker.next(params);
  ASSERT_TRUE(steps);
  add(params, change);
  worker.done(params, steps->count, 0);
}

}  // namespace causeway
