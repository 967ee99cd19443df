// A worker server with a script behind it, on its own io_context thread; the ranks that attach are
// threads of the tests.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <asio/co_spawn.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/use_future.hpp>

#include "diloco/coordinator/spool_copy.h"
#include "diloco/worker/worker_server.h"
#include "diloco/worker/worker_session.h"
#include "inter/tls/pki.h"
#include "tests/support/temporary_directory.h"

namespace causeway::diloco {

inline bool keep(const std::string&) {
  return true;
}

// Welcomes every gathering, and answers each ready with the next scripted instruction.
class Script : public WorkerServerHandler {
 public:
  std::string objection(const AttachRequest& request) override {
    return request.settings == unwanted ? "inner.lr = 1 here, 2 there" : "";
  }
  void on_gathered(const AttachRequest& rank_0,
                   const std::vector<std::uint32_t>& without) override {
    attached.push_back(rank_0);
    missing = without;
    server->welcome("run", false);
  }
  void on_worker_lost() override { ++lost; }
  void on_ready(std::uint32_t taken) override {
    steps = taken;
    answer();
  }
  void on_contribute(const Contribution& contribution, Descriptor file) override {
    contributions.push_back(contribution);
    const std::uint64_t size_bytes = size_of(file);
    const MappedBytes mapped(file.release(), size_bytes);
    payload.assign(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
    room ? server->stored() : server->not_stored();
  }
  void on_applied(Round version, const Digest&) override { applied = version; }
  void on_snapshot(Round version, const Digest&, Descriptor file) override {
    snapshot_version = version;
    snapshot_file = std::move(file);
  }
  void on_report(const Progress& progress) override { reported = progress; }
  void on_data_read(const DataDigests& read) override { data = read; }

  WorkerServer* server = nullptr;
  std::function<void()> answer = [] {};
  std::string unwanted = "inner.lr = 2\n";  // settings with which no worker may attach
  std::vector<AttachRequest> attached;
  std::vector<std::uint32_t> missing;  // when they gathered last
  std::vector<Contribution> contributions;
  std::string payload;
  bool room = true;
  std::uint32_t steps = 0;  // that the worker took, when it asked last
  Round applied = 0, snapshot_version = 0;
  Descriptor snapshot_file;
  Progress reported;
  DataDigests data;
  std::atomic<int> lost = 0;
};

enum class Transport { unix_socket, tls };
inline auto both_transports() {
  return testing::Values(Transport::unix_socket, Transport::tls);
}
inline std::string name_of(const testing::TestParamInfo<Transport>& tested) {
  return tested.param == Transport::tls ? "Tls" : "UnixSocket";
}

class WorkerServerTest : public ::testing::TestWithParam<Transport> {
 protected:
  void start(std::uint32_t workers, std::chrono::milliseconds rank_wait = std::chrono::hours(1)) {
    // Far longer than a socket address can hold.
    const std::filesystem::path directory = directory_.path() / std::string(200, 'd');
    std::filesystem::create_directories(directory);
    socket_ = directory / "worker.sock";
    server_.emplace(context_.get_executor(),
                    WorkerServerOptions{.socket = socket_,
                                        .region = "eu",
                                        .workers = workers,
                                        .settings = "codec.feedback = true\n",
                                        .rank_wait = rank_wait,
                                        .attach_deadline = attach_deadline_},
                    script_);
    script_.server = &*server_;
    if (over_tls()) {
      certificates_ = directory_.path() / "certificates";
      inter::create_ca(certificates_, "test");
      inter::add_region(certificates_, "eu");
      port_ = server_->listen({"127.0.0.1", 0}, inter::credentials_in(certificates_, "eu"));
    }
    server_->start();
    thread_ = std::thread([this] { context_.run(); });
  }
  ~WorkerServerTest() override {
    if (thread_.joinable()) {
      asio::co_spawn(context_, server_->stop(), asio::use_future).get();
      work_.reset();
      thread_.join();
    }
  }

  virtual bool over_tls() const { return GetParam() == Transport::tls; }
  AttachRequest request(std::uint32_t rank, std::uint32_t world) const {
    return {.socket = over_tls() ? std::filesystem::path() : socket_,
            .region = "eu",
            .rank = rank,
            .world = world,
            .version = 3,
            .run_id = {},
            .coordinator = over_tls() ? "127.0.0.1:" + std::to_string(port_) : "",
            .certificates = certificates_};
  }
  std::unique_ptr<WorkerSession> attach(std::uint32_t rank, std::uint32_t world) const {
    return WorkerSession::attach(request(rank, world), keep);
  }
  // What the script saw is read on the server's thread.
  template <typename F>
  auto on_server(F f) {
    return asio::co_spawn(
               context_, [f]() -> asio::awaitable<std::invoke_result_t<F>> { co_return f(); },
               asio::use_future)
        .get();
  }

  test::TemporaryDirectory directory_;
  std::filesystem::path socket_, certificates_;
  std::uint16_t port_ = 0;
  std::chrono::milliseconds attach_deadline_ = std::chrono::hours(1);
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  Script script_;
  std::optional<WorkerServer> server_;
  std::thread thread_;
};

}  // namespace causeway::diloco
