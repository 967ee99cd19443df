#include "diloco/coordinator.h"

#include <array>
#include <exception>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <openssl/rand.h>
#include <spdlog/spdlog.h>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/coordinator_core.h"

namespace causeway::diloco {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kPulse{250};
constexpr seconds kWaitLogInterval{10};
constexpr seconds kWorkerGoodbye{60};  // without a word from a worker that was told to finish

Time now() {
  return std::chrono::duration_cast<Time>(steady_clock::now().time_since_epoch());
}

std::string random_run_id() {
  std::array<std::uint8_t, 32> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    throw std::system_error(std::make_error_code(std::errc::io_error), "no random bytes");
  }
  return to_hex(bytes).substr(0, 32);
}

ProtocolOptions protocol_options(const CoordinatorOptions& options) {
  const std::size_t majority = options.roster.size() / 2 + 1;
  return {
      .self = options.region,
      .roster = {options.roster.begin(), options.roster.end()},
      .decider = options.decider,
      .rounds = options.rounds,
      .k = options.k,
      .contributions_min = options.contributions_min == 0 ? majority : options.contributions_min,
      .grace_min = options.grace_min,
      .grace_max = options.grace_max};
}

// Why these options cannot work; empty if they can.
std::string objection(const CoordinatorOptions& options) {
  const std::set<std::string> roster(options.roster.begin(), options.roster.end());
  if (!roster.contains(options.region)) {
    return "region " + options.region + " is not among the run's regions";
  }
  if (!roster.contains(options.decider)) {
    return "the decider " + options.decider + " is not among the run's regions";
  }
  if (options.contributions_min > roster.size()) {
    return "a round cannot need " + std::to_string(options.contributions_min) +
           " contributions from " + std::to_string(roster.size()) + " regions";
  }
  return {};
}

}  // namespace

// ---- Life ----

asio::awaitable<Outcome> Coordinator::Implementation::run() {
  if (const std::string text = objection(options_); !text.empty()) co_return Outcome{2, text};
  std::filesystem::create_directories(options_.directory);
  if (std::optional<Outcome> outcome = open_ledger()) co_return *outcome;
  open_protocol();
  open_links();
  tasks_.spawn(pulse());
  handle(Tick{});
  while (!outcome_ && !failure_) co_await changed_.wait();
  co_await close();
  if (failure_) std::rethrow_exception(failure_);
  co_return *outcome_;
}

// The region's lineage: founding, joining and resuming are explicit.
std::optional<Outcome> Coordinator::Implementation::open_ledger() {
  const std::string directory = options_.directory.string();
  const bool is_decider = options_.region == options_.decider;
  ledger_.emplace(options_.directory / "ledger");
  if (!ledger_->run_id().empty()) {
    if (options_.start != Start::found) return std::nullopt;
    return Outcome{4, directory + " already holds run " + ledger_->run_id() +
                          ": start without --found to resume it, or use another directory"};
  }
  if (options_.start == Start::found && is_decider) {
    ledger_->set_run_id(random_run_id());
    return std::nullopt;
  }
  if (options_.start == Start::join && !is_decider) return std::nullopt;
  const std::string start = is_decider ? "--found to begin a new run" : "--join to take part";
  return Outcome{4, directory + " holds no run: start " + options_.region + " with " + start};
}

void Coordinator::Implementation::open_protocol() {
  const std::uint64_t capacity_bytes = options_.spool_bytes_max == 0
                                           ? std::numeric_limits<std::uint64_t>::max()
                                           : options_.spool_bytes_max;
  spool_.emplace(options_.directory / "spool", capacity_bytes);
  files_.emplace(options_.directory, options_.region);
  const std::vector<inter::BlobId> blobs = spool_->complete();
  protocol_.emplace(protocol_options(options_),
                    PersistentState{.run_id = ledger_->run_id(),
                                    .records = ledger_->records(),
                                    .contribution = ledger_->contribution(),
                                    .snapshot = ledger_->snapshot(),
                                    .blobs = {blobs.begin(), blobs.end()}});
}

void Coordinator::Implementation::open_links() {
  greeting_ = {.run_id = ledger_->run_id(),
               .region = options_.region,
               .roster = {options_.roster.begin(), options_.roster.end()},
               .shared_config = options_.shared_config,
               .version = protocol_->version()};
  inter::MeshOptions mesh = options_.mesh;
  mesh.self = options_.region;
  mesh.greeting = serialize(greeting_);
  mesh.peers.erase(options_.region);
  workers_.emplace(executor_, options_.directory / "worker.sock", options_.region, options_.workers,
                   options_.shared_config, *this);
  if (options_.worker_listen) {
    const std::uint16_t port = workers_->listen(*options_.worker_listen, options_.mesh.credentials);
    spdlog::info("{}: workers on other hosts attach at port {}", options_.region, port);
  }
  mesh_.emplace(executor_, std::move(mesh), *spool_, *this);
  mesh_->start();
  listening_port_ = mesh_->listening_port();
  files_->write_listening_port(listening_port_);
  workers_->start();
  spdlog::info("{}: run {}, round {}, listening on port {}", options_.region,
               greeting_.run_id.empty() ? "not known yet" : greeting_.run_id, greeting_.version,
               listening_port_);
}

asio::awaitable<void> Coordinator::Implementation::close() {
  closing_ = true;
  tick_.cancel();
  const int exit_code = outcome_ ? outcome_->exit_code : 1;
  if (exit_code == 2 || exit_code == 4) workers_->refuse(outcome_->message);
  co_await mesh_->stop();
  if (exit_code == 0) co_await say_goodbye();
  co_await workers_->stop();
  co_await tasks_.join();
  files_->write(status());
  // Whoever starts this region again may open the directory from here on.
  ledger_.reset();
}

// A worker that was told to finish still evaluates and saves; its ranks must not take the closed
// socket for a crash.
asio::awaitable<void> Coordinator::Implementation::say_goodbye() {
  asio::steady_timer timer(executor_);
  worker_heard_at_ = steady_clock::now();
  while (workers_->attached() && steady_clock::now() < worker_heard_at_ + kWorkerGoodbye) {
    timer.expires_after(kPulse);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

void Coordinator::Implementation::finish(Outcome outcome) {
  if (!outcome_) outcome_ = std::move(outcome);
  changed_.notify();
}

void Coordinator::Implementation::handle(const Event& event) {
  if (outcome_ || failure_) return;
  guard([&] {
    for (const Action& action : protocol_->handle(event, now())) {
      std::visit([this](const auto& body) { execute(body); }, action);
    }
    arm_tick();
  });
}

void Coordinator::Implementation::arm_tick() {
  const std::optional<Time> next = protocol_->next_deadline();
  if (!next || outcome_) {
    tick_.cancel();
    return;
  }
  tick_.expires_at(steady_clock::time_point(*next));
  tick_.async_wait([this](const std::error_code& error) {
    if (!error && !closing_) handle(Tick{});
  });
}

// What nobody tells: how far transfers are, and what the display and the worker should know.
asio::awaitable<void> Coordinator::Implementation::pulse() {
  asio::steady_timer timer(executor_);
  while (!outcome_ && !failure_) {
    guard([this] {
      poll_progress();
      tell_what_is_waited_for();
      files_->write(status());
    });
    timer.expires_after(kPulse);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

void Coordinator::Implementation::poll_progress() {
  for (const inter::BlobId& blob : protocol_->wanted()) {
    const std::uint64_t received_bytes = spool_->received_bytes(blob);
    if (received_bytes > 0 && !spool_->has(blob)) handle(BlobProgress{blob, received_bytes});
  }
}

void Coordinator::Implementation::tell_what_is_waited_for() {
  const std::string what = protocol_->waiting_for(now());
  if (what != told_worker_ && !what.empty()) workers_->waiting_for(what);
  told_worker_ = what;
  if (what.empty() || logged_wait_.empty()) {
    wait_logged_at_ = steady_clock::now();
  } else if (steady_clock::now() >= wait_logged_at_ + kWaitLogInterval) {
    spdlog::info("{}: waiting for {}", options_.region, what);
    wait_logged_at_ = steady_clock::now();
  }
  logged_wait_ = what;
}

CoordinatorStatus Coordinator::Implementation::status() const {
  const auto& applied = protocol_->applied();
  return {.region = options_.region,
          .run_id = protocol_->run_id(),
          .version = applied ? applied->version : protocol_->version(),
          .round = protocol_->version(),
          .listening_port = listening_port_,
          .waiting_for = protocol_->waiting_for(now()),
          .progress = progress_,
          .links = mesh_->stats(),
          .finished = outcome_ && outcome_->exit_code == 0};
}

// ---- The public face ----

Coordinator::Coordinator(asio::any_io_executor executor, CoordinatorOptions options)
    : implementation_(std::make_unique<Implementation>(executor, std::move(options))) {}
Coordinator::~Coordinator() = default;
asio::awaitable<Outcome> Coordinator::run() {
  return implementation_->run();
}
void Coordinator::stop() {
  implementation_->stop();
}
std::uint16_t Coordinator::listening_port() const {
  return implementation_->listening_port();
}

}  // namespace causeway::diloco
