#include "apps/run/watch/checkpoint_hook.h"

#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <nlohmann/json.hpp>

#include "apps/run/region/parse_object.h"
#include "apps/run/region/region_files.h"
#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger_files.h"
#include "inter/base/file.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLook{1};

fs::path log_file(const CheckpointHookOptions& options) {
  return options.directory / (options.file + ".log");
}

void write(const CheckpointHookOptions& options, const CheckpointHookState& state) {
  nlohmann::ordered_json json = {{"version", state.version}, {"failures", state.failures}};
  if (!state.run_id.empty()) json["run"] = state.run_id;
  write_text_file(options.directory / (options.file + ".json"), json.dump() + "\n");
}

// A command may print without end, and is started again and again. It appends, wherever the end is.
void cut_log(const fs::path& log, std::uintmax_t bytes_max) {
  constexpr std::uintmax_t kKeptBytes = 64U << 10;
  std::error_code missing;
  const std::uintmax_t size = fs::file_size(log, missing);
  if (missing || size <= bytes_max) return;
  try {
    const std::uintmax_t kept = std::min({kKeptBytes, bytes_max, size});
    std::string end(kept, '\0');
    inter::File file(log, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    end.resize(file.read_at(size - kept, std::as_writable_bytes(std::span(end))));
    file.resize(0);
    diloco::append_to_file(
        log, fmt::format("({} bytes before this were cut off)\n{}", size - kept, end));
  } catch (const std::system_error& error) {
    spdlog::warn("{}: {}; it may grow", log.string(), error.what());
  }
}

}  // namespace

std::optional<CheckpointHookState> read_checkpoint_hook(const fs::path& directory,
                                                        const std::string& file) {
  const auto json = parse_object(read_text_file(directory / (file + ".json")));
  if (!json) return std::nullopt;
  return CheckpointHookState{.version = get<std::uint64_t>(*json, "version"),
                             .failures = get<std::uint64_t>(*json, "failures"),
                             .run_id = get<std::string>(*json, "run")};
}

CheckpointHook::CheckpointHook(asio::any_io_executor executor, CheckpointHookOptions options)
    : options_(std::move(options)),
      timer_(executor),
      log_timer_(std::move(executor)),
      state_(
          read_checkpoint_hook(options_.directory, options_.file).value_or(CheckpointHookState{})) {
}

void CheckpointHook::look() {
  if (command_ == nullptr) timer_.cancel();
}

void CheckpointHook::finish() {
  finishing_ = true;
  timer_.cancel();
}

void CheckpointHook::stop() {
  stopped_ = true;
  finish();
  if (command_ != nullptr) command_->send_signal(SIGKILL);
}

std::optional<std::uint64_t> CheckpointHook::due() {
  if (options_.command.empty() || stopped_) return std::nullopt;
  const std::optional<std::uint64_t> version = newest();
  if (!version) return std::nullopt;
  forget_another_run();
  return *version > state_.version ? version : std::nullopt;
}

// Somebody may have begun anew in the directory of another run: what the command brought away then
// says nothing of this one's snapshots.
void CheckpointHook::forget_another_run() {
  if (options_.newest) return;  // a follower's: it has no ledger
  try {
    const std::string run_id = diloco::read_run_id(options_.directory / "ledger");
    if (!state_.run_id.empty() && state_.run_id != run_id) state_ = {};
    state_.run_id = run_id;
  } catch (const std::system_error&) {
    // Damaged: whoever needs it says so.
  }
}

std::optional<std::uint64_t> CheckpointHook::newest() const {
  if (options_.newest) return options_.newest();
  try {
    const auto snapshot = diloco::read_snapshot(options_.directory / "ledger" / "snapshot");
    if (snapshot) return snapshot->version;
  } catch (const std::system_error&) {
    // Damaged: whoever needs it says so.
  }
  return std::nullopt;
}

asio::awaitable<void> CheckpointHook::pause(std::chrono::seconds time) {
  if (finishing_) co_return;
  asio::error_code ended;
  timer_.expires_after(time);
  co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ended));
}

asio::awaitable<void> CheckpointHook::run() {
  while (true) {
    const bool last = finishing_;
    if (const auto version = due()) co_await run_for(*version);
    if (last) co_return;
    co_await pause(failed_ ? options_.retry : kLook);
  }
}

asio::awaitable<ExitStatus> CheckpointHook::start(std::uint64_t version) {
  ProcessOptions process{.arguments = {"/bin/sh", "-c", options_.command},
                         .environment = options_.environment,
                         .log = log_file(options_),
                         .output = {},
                         .with_descendants = true};
  process.environment["CAUSEWAY_VERSION"] = std::to_string(version);
  Process command(timer_.get_executor(), process);
  command_ = &command;
  struct Running {
    CheckpointHook& hook;
    ~Running() {
      hook.command_ = nullptr;
      hook.log_timer_.cancel();
    }
  } const running{*this};
  bound_log();
  const ExitStatus status = co_await command.wait();
  cut_log(log_file(options_), options_.log_bytes_max);
  co_return status;
}

void CheckpointHook::bound_log() {
  cut_log(log_file(options_), options_.log_bytes_max);
  log_timer_.expires_after(kLook);
  log_timer_.async_wait([this](const asio::error_code& cancelled) {
    if (!cancelled && command_ != nullptr) bound_log();
  });
}

asio::awaitable<void> CheckpointHook::run_for(std::uint64_t version) {
  const std::string what =
      fmt::format("{}: {} for version {}", options_.region, options_.key, version);
  try {
    const ExitStatus status = co_await start(version);
    if (stopped_) co_return;
    failed_ = !status.ok();
    if (failed_) {
      spdlog::error("{} ended with {}; what it said is in {}. It is tried again", what,
                    to_string(status), log_file(options_).string());
    } else {
      spdlog::info("{} is done", what);
    }
  } catch (const std::system_error& error) {
    failed_ = true;
    spdlog::error("{}: {}. It is tried again", what, error.what());
  }
  if (failed_) {
    ++state_.failures;
  } else {
    state_.version = version;
  }
  try {
    write(options_, state_);
  } catch (const std::system_error& error) {
    spdlog::warn("{}: {}; that is not kept", what, error.what());
  }
}

}  // namespace causeway::run
