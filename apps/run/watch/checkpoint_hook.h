// checkpoint.after: a command of the user's, started for the newest snapshot that the run
// confirmed, to bring it elsewhere. What it did is in checkpoint-after.json of the region's
// directory, the end of what it printed in checkpoint-after.log. A follower's --after is another,
// for the newest version that it published.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>

#include "apps/run/region/process.h"

namespace causeway::run {

struct CheckpointHookOptions {
  std::string command;  // for /bin/sh; empty: none
  std::string region;
  std::string key = "checkpoint.after";   // what the log calls the command
  std::string file = "checkpoint-after";  // its files: .json and .log
  // What is there for it; none: the snapshot that the directory's ledger names.
  std::function<std::optional<std::uint64_t>()> newest = {};
  std::filesystem::path directory;                 // the region's
  std::map<std::string, std::string> environment;  // beside CAUSEWAY_VERSION
  std::chrono::seconds retry{60};                  // after a failure
  std::uintmax_t log_bytes_max{4U << 20};          // beyond them the log's end alone is kept
};

// Versions are those of snapshots: rounds that they hold.
struct CheckpointHookState {
  std::uint64_t version = 0;   // the newest for which the command succeeded
  std::uint64_t failures = 0;  // since the run began
  std::string run_id = {};     // empty: a follower's, or an earlier version wrote it
};
std::optional<CheckpointHookState> read_checkpoint_hook(
    const std::filesystem::path& directory, const std::string& file = "checkpoint-after");

class CheckpointHook {
 public:
  CheckpointHook(asio::any_io_executor executor, CheckpointHookOptions options);

  // One command at a time, each for the snapshot that is the newest when it starts. Until one of
  // the two below.
  asio::awaitable<void> run();
  void look();    // there may be something new: now, rather than in a second
  void finish();  // once more if the last snapshot was not brought away
  void stop();    // at once: a command that runs is killed

 private:
  asio::awaitable<void> run_for(std::uint64_t version);
  asio::awaitable<ExitStatus> start(std::uint64_t version);
  std::optional<std::uint64_t> due();
  void forget_another_run();
  std::optional<std::uint64_t> newest() const;
  void bound_log();  // again and again, while a command runs
  asio::awaitable<void> pause(std::chrono::seconds time);

  CheckpointHookOptions options_;
  asio::steady_timer timer_, log_timer_;
  CheckpointHookState state_;
  bool failed_ = false;  // the newest command
  bool finishing_ = false, stopped_ = false;
  Process* command_ = nullptr;  // that runs
};

}  // namespace causeway::run
