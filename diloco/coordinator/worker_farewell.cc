#include "diloco/coordinator/worker_farewell.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "diloco/worker/last_word.h"

namespace causeway::diloco {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookEvery{250};
constexpr std::chrono::seconds kReturns{5};             // a worker that has lost its coordinator
constexpr std::chrono::seconds kLookForResultEvery{5};  // it has to be read whole
constexpr const char* kItsResult =
    "this region's worker, which has yet to write its result, perhaps to be started again";
constexpr const char* kItsSnapshot = "the snapshot of the last version to be stored";

// Of an end by which a region has no part in the run any more; none: it has.
std::optional<Errc> refusal_by(int exit_code) {
  switch (exit_code) {
    case 2:
      return Errc::config_mismatch;
    case 3:
      return Errc::left_out;
    case 4:
      return Errc::lineage;
    default:
      return std::nullopt;
  }
}

}  // namespace

WorkerFarewell::WorkerFarewell(CoordinatorContext context, const WorkerSeen& worker,
                               std::optional<WorkerServer>& server, ContributionIntake& intake,
                               Apply apply)
    : context_(std::move(context)),
      worker_(worker),
      server_(server),
      intake_(intake),
      apply_(std::move(apply)) {}

// ---- It may not take part any more ----

void WorkerFarewell::refuse(const RunOutcome& outcome) {
  const std::optional<Errc> kind = refusal_by(outcome.exit_code);
  if (!server_ || !kind) return;  // no server: the coordinator ends before it could open it
  heard_refusal_ = worker_.is_attached;
  server_->refuse(outcome.message, *kind);
}

// A worker that is away tries again within a second, if it is not in the middle of its steps.
// Nobody else would tell it that it waits for nothing. The note is for whoever comes later, such as
// a rank that the others went on without.
asio::awaitable<void> WorkerFarewell::await_return_of_refused() {
  const std::string& before = context_.directory.files().earlier_phase();
  const bool was_there = worker_.has_attached || (!before.empty() && before != kPhaseDone);
  const RunOutcome& outcome = *context_.ending.outcome();
  if (!server_ || !was_there || !refusal_by(outcome.exit_code)) co_return;
  leave_word(outcome);
  if (heard_refusal_) co_return;
  spdlog::info("{}: ends; its worker, which is away, may return within {} s to be told why",
               context_.options.region, kReturns.count());
  asio::steady_timer timer(context_.executor);
  const auto until = steady_clock::now() + kReturns;
  while (!heard_refusal_ && !cut_short_ && steady_clock::now() < until) {
    timer.expires_after(kLookEvery);
    co_await timer.async_wait(asio::use_awaitable);
  }
  if (!heard_refusal_) refuse(outcome);  // ranks that came back without all the others
}

void WorkerFarewell::leave_word(const RunOutcome& outcome) {
  try {
    leave_last_word(context_.options.directory,
                    {.run_id = context_.protocol().run_id(),
                     .reason = outcome.message,
                     .kind = refusal_by(outcome.exit_code).value_or(Errc::malformed)});
  } catch (const std::system_error& error) {
    spdlog::warn(
        "{}: its worker, if it still runs, will wait for nothing: end it. No note could "
        "be left for it ({})",
        context_.options.region, error.what());
  }
}

// ---- The run is over ----

asio::awaitable<bool> WorkerFarewell::say_goodbye(std::function<void(const std::string&)> show) {
  asio::steady_timer timer(context_.executor);
  const auto since = steady_clock::now();
  look_for_result_at_ = {};
  if (intake_.stop_waiting()) see_off();
  for (bool told = false; !has_result();) {
    const bool away = !server_->attached();
    if (away && !std::exchange(told, true))
      spdlog::warn("{}: the run is over: waiting for {}", context_.options.region, kItsResult);
    show(kItsResult);
    if (cut_short_ && away) co_return false;
    if (holds_another_) co_return false;
    if (unsigned_) see_off();
    const auto heard_at = std::max(since, worker_.heard_at);
    if (steady_clock::now() >= heard_at + context_.options.goodbye) co_return !worker_.has_attached;
    timer.expires_after(kLookEvery);
    co_await timer.async_wait(asio::use_awaitable);
  }
  if (intake_.copies()) show(kItsSnapshot);
  co_await intake_.join();
  show({});
  co_return true;
}

// In this life of the coordinator or an earlier one.
bool WorkerFarewell::has_result() {
  const bool witness = context_.directory.protocol_options().witness;
  if (witness || worker_.progress.phase() == kPhaseDone) return true;
  if (server_->attached()) return false;
  if (!worker_.has_attached && context_.directory.files().earlier_phase() == kPhaseDone)
    return true;
  const steady_clock::time_point now = steady_clock::now();
  if (!context_.options.has_result || now < look_for_result_at_) return false;
  look_for_result_at_ = now + kLookForResultEvery;
  const RoundProtocol& protocol = context_.protocol();
  return context_.options.has_result(protocol.run_id(), protocol.version());
}

// Once it is signed: until then it is tried again when the run is over.
void WorkerFarewell::finish(const Applied& end) {
  if (!sign(end)) return;
  server_->finish(end.version);
  reached(ProtocolState::finish_ordered);
}

// A disk that fails just now is no cause to leave the run, as the others do not wait for this any
// more.
bool WorkerFarewell::sign(const Applied& end) {
  try {
    const bool otherwise = ended_otherwise(end);
    if (!otherwise) context_.directory.ledger().save_finished(end.version, end.state);
    unsigned_ = false;
    return !otherwise;
  } catch (const std::system_error& error) {
    if (!is_storage_failure(error)) throw;
    if (!std::exchange(unsigned_, true))
      spdlog::warn("{}: cannot write that its worker holds the end ({}): tries again",
                   context_.options.region, error.what());
    return false;
  }
}

// No record has the state of the last version, but this region may have signed one before.
bool WorkerFarewell::ended_otherwise(const Applied& end) {
  const std::optional<Applied> before = context_.directory.ledger().finished();
  const bool same = !before || before->version != end.version || before->state == end.state;
  if (same) return false;
  holds_another_ = true;
  const std::string message = fmt::format(
      "this region's worker holds a state of version {} ({}) that is not the one with which the "
      "region ended ({}): its checkpoints were changed since, or this machine fails now, or failed "
      "then. Take the model of another region; or stop both processes, move checkpoints/ and "
      "ledger/finished out of {}, and start them together with another region's coordinator, to "
      "have the last rounds applied again",
      end.version, to_hex(end.state), to_hex(before->state), context_.options.directory.string());
  context_.ending.finish({4, message});
  return true;
}

// A worker that died before it saved the last rounds is given them again.
void WorkerFarewell::see_off() {
  const RoundProtocol& protocol = context_.protocol();
  if (!holds_what_was_agreed()) {
    holds_another_ = true;
    // The next life knows by this that it is another one.
    if (worker_.holds.version == protocol.version()) sign(*protocol.applied());
    spdlog::error(
        "{}: its worker came back with a state of version {} that is not the one agreed on: this "
        "process ends, to be started again",
        context_.options.region, worker_.holds.version);
    return server_->waiting_for(
        "its coordinator to be started again: this state is not the one agreed on");
  }
  // It may have died before it was told so, and nothing was signed of what it held.
  if (worker_.holds.version >= protocol.version()) return finish(worker_.holds);
  const CommitRecord record = protocol.record(worker_.holds.version);
  const bool held = all_applied_blobs(
      record, [this](const inter::BlobId& blob) { return context_.directory.spool().has(blob); });
  if (held) return apply_(record);
  server_->waiting_for(fmt::format(
      "the payloads of round {}, which are not kept any more, as the run is over", record.round));
}

// Of the last version no record says the state: it is the one with which the run ended here.
bool WorkerFarewell::holds_what_was_agreed() const {
  const RoundProtocol& protocol = context_.protocol();
  if (worker_.holds.version < protocol.version())
    return worker_.holds.state == protocol.record(worker_.holds.version).state;
  const std::optional<Applied>& ended = protocol.applied();
  return !ended || ended->version != worker_.holds.version || ended->state == worker_.holds.state;
}

}  // namespace causeway::diloco
