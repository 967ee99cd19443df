#include "diloco/coordinator/coordinator.h"

#include <exception>
#include <optional>
#include <utility>

#include <spdlog/spdlog.h>

#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/coordinator/coordinator_core.h"
#include "diloco/files/error.h"

namespace causeway::diloco {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kPulse{250};
constexpr seconds kWaitLogInterval{10};
constexpr seconds kWorkerGoodbye{60};  // without a word from a worker that was told to finish
constexpr seconds kWorkerReturn{10};   // for one that was lost meanwhile

Time now() {
  return std::chrono::duration_cast<Time>(steady_clock::now().time_since_epoch());
}

}  // namespace

// ---- Life ----

asio::awaitable<std::optional<Outcome>> Coordinator::Implementation::run() {
  if (std::optional<Outcome> outcome = open_ledger()) co_return *outcome;
  try {
    open_protocol();
    open_links();
    tasks_.spawn(pulse());
    handle(Tick{});
    while (!outcome_ && !failure_ && storage_failure_.empty()) co_await changed_.wait();
    if (!outcome_ && !failure_) co_await abstain();
  } catch (...) {  // a port in use, for one: what is open already must not keep the program alive
    failure_ = std::current_exception();
  }
  co_await close();
  if (failure_) std::rethrow_exception(failure_);
  co_return outcome_;
}

asio::awaitable<void> Coordinator::Implementation::close() {
  closing_ = true;
  tick_.cancel();
  farewell_.cancel();
  const int exit_code = outcome_ ? outcome_->exit_code : 1;
  if (exit_code == 2 || exit_code == 4) workers_->refuse(outcome_->message, exit_code == 2);
  if (mesh_) co_await mesh_->stop();
  if (operator_door_) co_await operator_door_->stop();
  if (exit_code == 0) co_await say_goodbye();
  if (workers_) co_await workers_->stop();
  co_await tasks_.join();
  if (operator_door_) write_last_status();
  // Whoever starts this region again may open the directory from here on.
  ledger_.reset();
}

void Coordinator::Implementation::write_last_status() {
  try {
    files_->write(status());
  } catch (const std::system_error& error) {
    if (!is_storage_failure(error)) throw;
  }
}

// A worker that was told to finish still evaluates and saves; its ranks must not take the closed
// socket for a crash.
asio::awaitable<void> Coordinator::Implementation::say_goodbye() {
  asio::steady_timer timer(executor_);
  worker_heard_at_ = steady_clock::now();
  const bool worker_asks = waits_for_room_ && waits_for_room_->worker_asks;
  waits_for_room_.reset();  // it does not matter any more
  if (worker_asks) see_off();
  while (!goodbye_is_over()) {
    timer.expires_after(kPulse);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

// One that was lost before it was done comes back to finish.
bool Coordinator::Implementation::goodbye_is_over() const {
  const steady_clock::time_point now = steady_clock::now();
  if (workers_->attached()) return now >= worker_heard_at_ + kWorkerGoodbye;
  return progress_.phase == kPhaseDone || !worker_lost_at_ ||
         now >= *worker_lost_at_ + kWorkerReturn;
}

void Coordinator::Implementation::finish(Outcome outcome) {
  if (!outcome_) outcome_ = std::move(outcome);
  changed_.notify();
}

void Coordinator::Implementation::handle(const Event& event) {
  if (outcome_ || failure_ || !storage_failure_.empty()) return;
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
  while (!outcome_ && !failure_ && storage_failure_.empty()) {
    guard([this] {
      poll_progress();
      look_for_room();
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
  const std::string what = waiting_for();
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

std::string Coordinator::Implementation::waiting_for() const {
  const bool for_room = waits_for_room_ && waits_for_room_->worker_asks;
  return for_room ? room_sentence() : protocol_->waiting_for(now());
}

CoordinatorStatus Coordinator::Implementation::status() const {
  const auto& applied = protocol_->applied();
  return {.region = options_.region,
          .run_id = protocol_->run_id(),
          .version = applied ? applied->version : protocol_->version(),
          .round = protocol_->version(),
          .workers = options_.workers,
          .missing = missing_,
          .listening_port = listening_port_,
          .waiting_for = waiting_for(),
          .leader = protocol_->raft().leader().value_or(""),
          .term = protocol_->raft().term(),
          .share = protocol_->share().value_or(DataShare{}),
          .k = protocol_->k(),
          .k_change = protocol_->k_change(),
          .progress = progress_,
          .links = mesh_->stats(),
          .finished = outcome_ && outcome_->exit_code == 0};
}

// ---- The public face ----

Coordinator::Coordinator(asio::any_io_executor executor, CoordinatorOptions options)
    : executor_(executor),
      implementation_(std::make_unique<Implementation>(executor, std::move(options))) {}
Coordinator::~Coordinator() = default;
asio::awaitable<Outcome> Coordinator::run() {
  for (;;) {
    if (std::optional<Outcome> outcome = co_await implementation_->run()) co_return *outcome;
    // What it knew may be ahead of what is on disk.
    CoordinatorOptions options = implementation_->options();
    if (options.start != Start::join) options.start = Start::resume;
    implementation_ = std::make_unique<Implementation>(executor_, std::move(options));
  }
}
void Coordinator::stop() {
  implementation_->stop();
}
std::uint16_t Coordinator::listening_port() const {
  return implementation_->listening_port();
}

}  // namespace causeway::diloco
