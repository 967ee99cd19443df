// A run of one region without links, sockets and processes: its directory and its protocol, and
// every action that the protocol wants, carried out if it is about the disk.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <asio/io_context.hpp>

#include "diloco/coordinator/coordinator_context.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/test_pki.h"

namespace causeway::diloco::testing {

class LoneRegion {
 public:
  explicit LoneRegion(std::uint64_t spool_bytes = 0, Start start = Start::found,
                      const EgressBudget& budget = {}, std::vector<Member> members = {})
      : options_(options(spool_bytes, start)), directory_(options_) {
    if (!members.empty()) options_.members = std::move(members);
    options_.protocol.k_policy.budget = budget;
    opened_ = directory_.open();
    start_driver();
  }
  // The protocol anew, from what is on disk.
  void start_driver() {
    driver_.emplace(
        loop_.get_executor(), ending_, directory_.spool(), directory_.protocol_options(),
        directory_.state(),
        [this](const Action& action) {
          actions_.push_back(action);
          std::visit([this](const auto& body) { save(body); }, action);
        },
        [this] { return wall_s_; });
  }

  CoordinatorContext context() {
    return {.executor = loop_.get_executor(),
            .options = options_,
            .ending = ending_,
            .directory = directory_,
            .driver = *driver_,
            .status = [] { return RegionStatus{}; },
            .lose = [](const inter::BlobId&) {}};
  }
  // Elects this region, its own majority, and attaches its worker with fresh weights.
  void begin() {
    for (int i = 0; i < 10'000 && !driver_->protocol().raft().leads(); ++i) {
      driver_->handle(Tick{});
      loop_.run_for(std::chrono::milliseconds{1});
    }
    driver_->handle(WorkerAttached{});
    driver_->handle(WorkerReady{});
  }
  template <typename Body>
  std::size_t count() const {
    return std::size_t(std::ranges::count_if(
        actions_, [](const Action& action) { return std::holds_alternative<Body>(action); }));
  }
  std::vector<CommitRecord> records() const {
    std::vector<CommitRecord> records;
    for (const Action& action : actions_) {
      const auto* append = std::get_if<AppendLedger>(&action);
      if (append == nullptr) continue;
      for (const LogEntry& entry : append->entries) {
        if (const auto* record = std::get_if<CommitRecord>(&entry.body)) records.push_back(*record);
      }
    }
    return records;
  }
  Contribution contribution() const {
    Contribution made;
    made.run_id = driver_->protocol().run_id();
    made.region = options_.region;
    made.round = driver_->protocol().version();
    made.tokens = 1;
    made.data_cursor = 8 * (made.round + 1);
    return made;
  }

  asio::io_context loop_;
  test::TemporaryDirectory root_{test::in_memory()};
  test::TestPki pki_{{"a"}};
  CoordinatorOptions options_;
  CoordinatorEnd ending_{loop_.get_executor()};
  RegionDirectory directory_;
  std::optional<RunOutcome> opened_;
  double wall_s_ = 0;
  std::optional<ProtocolDriver> driver_;
  std::vector<Action> actions_;

 private:
  CoordinatorOptions options(std::uint64_t spool_bytes, Start start) {
    CoordinatorOptions options;
    options.region = "a";
    options.members = {{.region = "a", .address = "127.0.0.1:0"}};
    options.start = start;
    options.protocol.pace = {.steps = 400, .k = 4};
    options.protocol.election = std::chrono::milliseconds{2};
    options.protocol.spool_bytes = spool_bytes;
    options.directory = root_.path() / "a";
    options.mesh.credentials = pki_.credentials("a");
    options.copying = loop_.get_executor();
    return options;
  }
  template <typename Body>
  void save(const Body& body) {
    if constexpr (std::is_same_v<Body, SaveRaft>) directory_.save(body, false);
    if constexpr (std::is_same_v<Body, AppendLedger>) {
      directory_.append(body, driver_->protocol().contribution());
    }
    if constexpr (requires { directory_.carry_out(body); }) directory_.carry_out(body);
  }
};

}  // namespace causeway::diloco::testing
