#include "diloco/coordinator/worker_side.h"

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/coordinator/greeting.h"
#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "diloco/worker/last_word.h"
#include "inter/base/text.h"

namespace causeway::diloco {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookEvery{250};
constexpr milliseconds kReturns{5'000};                 // a worker that has lost its coordinator
constexpr std::chrono::seconds kLookForResultEvery{5};  // it has to be read whole
constexpr const char* kItsResult =
    "this region's worker, which has yet to write its result, perhaps to be started again";
constexpr const char* kItsSnapshot = "the snapshot of the last version to be stored";

std::int64_t whole_seconds(steady_clock::duration time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

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

WorkerSide::WorkerSide(CoordinatorContext context)
    : context_(std::move(context)),
      intake_(context_,
              [this](bool stored) { stored ? server_->stored() : server_->not_stored(); }),
      check_(context_, [this] { on_ready(steps_); }) {}

// ---- Life ----

void WorkerSide::open(Descriptor listening) {
  const CoordinatorOptions& options = context_.options;
  take_back_last_word(options.directory);
  server_.emplace(context_.executor,
                  WorkerServerOptions{.socket = options.directory / "worker.sock",
                                      .region = options.region,
                                      .workers = options.workers,
                                      .settings = options.shared_config,
                                      .rank_wait = options.rank_wait},
                  *this);
  if (options.worker_listen) {
    const std::uint16_t port = server_->listen(*options.worker_listen, options.mesh.credentials);
    spdlog::info("{}: workers on other hosts attach at port {}", options.region, port);
  }
  server_->start(std::move(listening));
}

asio::awaitable<void> WorkerSide::reopen() {
  check_.call_off();
  is_attached_ = false;
  Descriptor listening = server_->hand_over_listening();
  co_await server_->stop();
  server_.reset();
  open(std::move(listening));
}

void WorkerSide::refuse(const RunOutcome& outcome) {
  const std::optional<Errc> kind = refusal_by(outcome.exit_code);
  if (!server_ || !kind) return;  // no server: the coordinator ends before it could open it
  heard_refusal_ = is_attached_;
  server_->refuse(outcome.message, *kind);
}

// A worker that is away tries again within a second, if it is not in the middle of its steps.
// Nobody else would tell it that it waits for nothing.
asio::awaitable<void> WorkerSide::await_return_of_refused() {
  const std::string& before = context_.directory.files().earlier_phase();
  const bool was_there = has_attached_ || (!before.empty() && before != kPhaseDone);
  const RunOutcome& outcome = *context_.ending.outcome();
  if (!server_ || heard_refusal_ || !was_there || !refusal_by(outcome.exit_code)) co_return;
  spdlog::info("{}: ends; its worker, which is away, may return within {} s to be told why",
               context_.options.region, whole_seconds(kReturns));
  asio::steady_timer timer(context_.executor);
  const auto until = steady_clock::now() + kReturns;
  while (!heard_refusal_ && !goodbye_cut_short_ && steady_clock::now() < until) {
    timer.expires_after(kLookEvery);
    co_await timer.async_wait(asio::use_awaitable);
  }
  if (heard_refusal_) co_return;
  refuse(outcome);  // ranks that came back without all the others
  leave_word(outcome);
}

void WorkerSide::leave_word(const RunOutcome& outcome) {
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

asio::awaitable<bool> WorkerSide::say_goodbye(std::function<void(const std::string&)> show) {
  asio::steady_timer timer(context_.executor);
  heard_at_ = steady_clock::now();
  look_for_result_at_ = {};
  if (intake_.stop_waiting()) see_off();
  for (bool told = false; !has_result();) {
    const bool away = !server_->attached();
    if (away && !std::exchange(told, true))
      spdlog::warn("{}: the run is over: waiting for {}", context_.options.region, kItsResult);
    show(kItsResult);
    if (goodbye_cut_short_ && away) co_return false;
    if (holds_another_) co_return false;
    if (finish_unsigned_) see_off();
    if (steady_clock::now() >= heard_at_ + context_.options.goodbye) co_return !has_attached_;
    timer.expires_after(kLookEvery);
    co_await timer.async_wait(asio::use_awaitable);
  }
  if (intake_.copies()) show(kItsSnapshot);
  co_await intake_.join();
  show({});
  co_return true;
}

// In this life of the coordinator or an earlier one.
bool WorkerSide::has_result() {
  const bool witness = context_.directory.protocol_options().witness;
  if (witness || progress_.phase() == kPhaseDone) return true;
  if (server_->attached()) return false;
  if (!has_attached_ && context_.directory.files().earlier_phase() == kPhaseDone) return true;
  const steady_clock::time_point now = steady_clock::now();
  if (!context_.options.has_result || now < look_for_result_at_) return false;
  look_for_result_at_ = now + kLookForResultEvery;
  const RoundProtocol& protocol = context_.protocol();
  return context_.options.has_result(protocol.run_id(), protocol.version());
}

asio::awaitable<void> WorkerSide::stop() {
  check_.call_off();
  if (server_) co_await server_->stop();
  co_await intake_.join();
  co_await check_.join();
}

// Whoever has its result is not to come back.
std::vector<std::uint32_t> WorkerSide::missing() const {
  if (is_attached_) return missing_;
  if (progress_.phase() == kPhaseDone) return {};
  std::vector<std::uint32_t> all(context_.options.workers);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

// Before its first report it may have much to read.
void WorkerSide::look_for_silence(steady_clock::time_point now) {
  const bool is_to_speak = is_attached_ && reported_unix_s_ && progress_.phase() != kPhaseDone;
  if (!is_to_speak) {
    silence_.end();
    return;
  }
  if (!silence_.look(now)) return;
  spdlog::warn(
      "{}: {} has said nothing for {} s; its last word was \"{}\". It hangs, or its work takes so "
      "long. If its log stands still too, end it and start it again: the run goes on meanwhile",
      context_.options.region, speaker(), whole_seconds(silence_.lasts()),
      inter::printable(progress_.phase()));
}

std::string WorkerSide::silence() const {
  if (!silence_.is_noted()) return {};
  return fmt::format("a sign of life from {}, for {} min now", speaker(),
                     whole_seconds(silence_.lasts()) / 60);
}

std::string WorkerSide::speaker() const {
  return speaker_of(context_.options.workers, missing_);
}

std::uint64_t WorkerSide::silent_s() const {
  return static_cast<std::uint64_t>(whole_seconds(silence_.lasts()));
}

// ---- What it is told ----

void WorkerSide::tell_what_is_waited_for(const std::string& what) {
  if (what != told_ && !what.empty()) server_->waiting_for(what);
  told_ = what;
}

void WorkerSide::carry_out(const WelcomeWorker& action) {
  welcome_ = action;
  on_log();
}

void WorkerSide::on_log() {
  if (!welcome_ || context_.directory.ledger().committed() == 0) return;
  const WelcomeWorker action = *std::exchange(welcome_, std::nullopt);
  server_->welcome(action.run_id, action.contributed, action.offers_initial, action.snapshot_from);
}

void WorkerSide::carry_out(const OrderTrain& action) {
  if (lacks_room(action.round)) return;
  server_->train(action);
  reached(ProtocolState::train_ordered);
}

void WorkerSide::carry_out(const OrderContinue& action) {
  server_->continue_training(action);
  reached(ProtocolState::continue_ordered);
}

void WorkerSide::carry_out(const OrderCollect& action) {
  server_->collect(action.round);
  reached(ProtocolState::collect_ordered);
}

void WorkerSide::carry_out(const OrderApply& action) {
  const std::vector<inter::BlobId> blobs = applied_blobs(action.record);
  // What is damaged is fetched again; the worker is told what to do when it is here.
  check_.hand_over(blobs, [this, record = action.record, blobs] {
    std::vector<std::filesystem::path> payloads;
    for (const inter::BlobId& blob : blobs) {
      payloads.push_back(context_.directory.spool().path(blob));
    }
    applying_ = record.round;
    server_->apply(record, payloads);
    reached(ProtocolState::apply_ordered);
  });
}

void WorkerSide::carry_out(const OrderRestore& action) {
  const Snapshot& snapshot = action.snapshot;
  context_.add_event("restore", {}, fmt::format("takes version {}", snapshot.version));
  const bool initial = snapshot.blob.size_bytes == 0;  // the worker makes it
  const auto order = [this, snapshot, initial] {
    server_->restore(snapshot.version, snapshot.state,
                     initial ? "/dev/null" : context_.directory.spool().path(snapshot.blob),
                     snapshot.blob.size_bytes);
    reached(ProtocolState::restore_ordered);
  };
  check_.hand_over(initial ? std::vector<inter::BlobId>{} : std::vector{snapshot.blob}, order);
}

// Once it is signed: until then it is tried again when the run is over.
void WorkerSide::carry_out(const OrderFinish& action) {
  if (!sign_end({action.version, action.state})) return;
  server_->finish(action.version);
  reached(ProtocolState::finish_ordered);
}

// A disk that fails just now is no cause to leave the run, as the others do not wait for this any
// more.
bool WorkerSide::sign_end(const Applied& end) {
  try {
    const bool otherwise = ended_otherwise(end);
    if (!otherwise) context_.directory.ledger().save_finished(end.version, end.state);
    finish_unsigned_ = false;
    return !otherwise;
  } catch (const std::system_error& error) {
    if (!is_storage_failure(error)) throw;
    if (!std::exchange(finish_unsigned_, true))
      spdlog::warn("{}: cannot write that its worker holds the end ({}): tries again",
                   context_.options.region, error.what());
    return false;
  }
}

// No record has the state of the last version, but this region may have signed one before.
bool WorkerSide::ended_otherwise(const Applied& end) {
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

// The run is over. A worker that died before it saved the last rounds is given them again.
void WorkerSide::see_off() {
  const RoundProtocol& protocol = context_.protocol();
  if (!holds_what_was_agreed()) {
    holds_another_ = true;
    // The next life knows by this that it is another one.
    if (holds_.version == protocol.version()) sign_end(*protocol.applied());
    spdlog::error(
        "{}: its worker came back with a state of version {} that is not the one agreed on: this "
        "process ends, to be started again",
        context_.options.region, holds_.version);
    return server_->waiting_for(
        "its coordinator to be started again: this state is not the one agreed on");
  }
  // It may have died before it was told so, and nothing was signed of what it held.
  if (holds_.version >= protocol.version())
    return carry_out(OrderFinish{holds_.version, holds_.state});
  const CommitRecord record = protocol.record(holds_.version);
  const bool held = all_applied_blobs(
      record, [this](const inter::BlobId& blob) { return context_.directory.spool().has(blob); });
  if (held) return carry_out(OrderApply{record});
  server_->waiting_for(fmt::format(
      "the payloads of round {}, which are not kept any more, as the run is over", record.round));
}

// Of the last version no record says the state: it is the one with which the run ended here.
bool WorkerSide::holds_what_was_agreed() const {
  const RoundProtocol& protocol = context_.protocol();
  if (holds_.version < protocol.version())
    return holds_.state == protocol.record(holds_.version).state;
  const std::optional<Applied>& ended = protocol.applied();
  return !ended || ended->version != holds_.version || ended->state == holds_.state;
}

// The disk fails: the worker keeps its numbers in memory and does not need us for inner steps.
void WorkerSide::train_on() {
  const std::optional<OrderContinue> steps = context_.protocol().steps_from(holds_.version, steps_);
  if (steps) return carry_out(*steps);
  server_->waiting_for("its coordinator's disk to take data again");
}

// ---- What it says ----

// Of trainers with settings of their own nothing is compared.
std::string WorkerSide::objection(const AttachRequest& request) {
  const std::string& ours = context_.options.region_config;
  if (ours.empty() || request.settings.empty() || ours == request.settings) return {};
  const std::string text = fmt::format(
      "rank {} of {} is configured otherwise than its coordinator: {}. Start both with the same "
      "configuration file and the same --set",
      request.rank, request.region,
      config_differences({ours, "in the coordinator"}, {request.settings, "in the worker"}));
  spdlog::error("{}: refused a worker: {}", context_.options.region, text);
  return text;
}

void WorkerSide::on_gathered(const AttachRequest& rank_0,
                             const std::vector<std::uint32_t>& missing) {
  const RoundProtocol& protocol = context_.protocol();
  spdlog::info("{}: {} of {} workers attached at version {}", context_.options.region,
               context_.options.workers - missing.size(), context_.options.workers, rank_0.version);
  note_missing(missing);
  trained_on_ = rank_0.trained_on;
  heard_at_ = steady_clock::now();
  reported_unix_s_.reset();
  is_attached_ = has_attached_ = true;
  finish_unsigned_ = false;
  check_.call_off();
  intake_.begin_gathering();
  holds_ = {rank_0.version, rank_0.state};
  steps_ = 0;
  told_.clear();
  welcome_.reset();
  reached(ProtocolState::workers_gathered);
  // It came back to end, or to go on while nothing can be decided here.
  const std::optional<RunOutcome>& outcome = context_.ending.outcome();
  if (outcome && !context_.ending.succeeded()) return refuse(*outcome);
  // One of another run is refused once that can be noted.
  const bool of_this = rank_0.run_id.empty() || rank_0.run_id == protocol.run_id();
  if (!outcome && !of_this && context_.ending.storage_fails()) return;
  if (outcome || context_.ending.storage_fails()) {
    return server_->welcome(protocol.run_id(), rank_0.contributed);
  }
  look_at_model(rank_0);
  note_other_data(rank_0.data.of_region);
  // Applied when this region's coordinator was away.
  const bool missed = rank_0.version > 0 && rank_0.version <= protocol.version() &&
                      context_.directory.files().next_round() == rank_0.version - 1;
  if (missed) context_.ending.guard([&] { add_applied_round(rank_0.version - 1, rank_0.state); });
  context_.driver.handle(WorkerAttached{.holds = {rank_0.version, rank_0.state},
                                        .has_lineage = rank_0.has_lineage,
                                        .run_id = rank_0.run_id,
                                        .common_data = rank_0.data.of_run,
                                        .tensors = rank_0.tensors,
                                        .open_work = rank_0.open_work});
}

void WorkerSide::look_at_model(const AttachRequest& rank_0) {
  const auto& objection = context_.options.model_objection;
  const bool told = objection && !rank_0.tensors.empty();
  no_room_ = told ? objection(rank_0.tensors, rank_0.save_rounds) : "";
}

// Found out before the run's first round: later it may stand still. The worker hears of it as the
// coordinator closes. A run that is under way may have room enough all the same, and goes on.
bool WorkerSide::lacks_room(Round round) {
  const std::string why = std::exchange(no_room_, {});
  if (why.empty()) return false;
  if (round == 0) {
    context_.ending.finish({2, why});
    return true;
  }
  spdlog::warn("{}: {}. With less the run may wait for room for ever", context_.options.region,
               why);
  return false;
}

// A region that goes on without some of its ranks says so.
void WorkerSide::note_missing(const std::vector<std::uint32_t>& missing) {
  if (missing == std::exchange(missing_, missing)) return;
  std::string ranks;
  for (const std::uint32_t rank : missing) inter::append_item(ranks, std::to_string(rank));
  const std::string workers = fmt::format("{} workers", context_.options.workers);
  const std::string text = missing.empty() ? "all " + workers + " are back"
                                           : "goes on without rank " + ranks + " of its " + workers;
  spdlog::log(missing.empty() ? spdlog::level::info : spdlog::level::warn, "{}: {}",
              context_.options.region, text);
  context_.ending.guard(
      [&] { context_.add_event(missing.empty() ? "whole" : "degraded", {}, text); });
}

// Files that were changed, added or taken away between two starts. That may be meant, so that the
// region trains on, but it must not pass unseen.
void WorkerSide::note_other_data(const std::optional<DataDigest>& now) {
  if (!trained_on_ || !now || same_data(*trained_on_, *now)) return;
  const auto name = [by_sample = !(trained_on_->whole && now->whole)](DataDigest data) {
    if (by_sample) data.whole.reset();
    return short_name(data);
  };
  const std::string text = fmt::format(
      "the data of this region, for training or for validation, has changed: now {}, before {}. "
      "The next steps read the new data. If that is not meant, stop this region and give it the "
      "old files",
      name(*now), name(*trained_on_));
  trained_on_ = now;
  spdlog::warn("{}: {}", context_.options.region, text);
  context_.ending.guard([&] { context_.add_event("other_data", {}, text); });
}

void WorkerSide::on_worker_lost() {
  check_.call_off();
  is_attached_ = false;
  welcome_.reset();
  intake_.worker_lost();
  if (!context_.ending.outcome() && progress_.phase() != kPhaseDone) {
    spdlog::warn("{}: its workers are gone; it waits until they attach again",
                 context_.options.region);
    context_.ending.guard([&] { context_.add_event("workers_lost", {}, {}); });
  }
  context_.driver.handle(WorkerLost{});
}

void WorkerSide::on_ready(std::uint32_t steps) {
  steps_ = steps;
  if (context_.ending.succeeded()) return see_off();
  if (context_.ending.storage_fails()) return train_on();
  if (!intake_.waits_for_room()) return context_.driver.handle(WorkerReady{steps});
  told_.clear();
  intake_.ask();
}

void WorkerSide::on_contribute(const Contribution& contribution, Descriptor payload) {
  const std::string &region = context_.options.region, &run_id = context_.protocol().run_id();
  if (contribution.region == region && contribution.run_id == run_id)
    return intake_.take(contribution, std::move(payload));
  // It has no other, and would hand over the same again.
  const std::string text = fmt::format(
      "the worker of {} has a contribution of region {} of run {}, and {} is in run {}: its "
      "checkpoints are of another region or run. If two disks are mounted the wrong way round, or "
      "another region's directory was copied, put that right; otherwise move checkpoints/ out of "
      "{} to start from the run's own state",
      region, contribution.region, contribution.run_id, region, run_id,
      context_.options.directory.string());
  spdlog::error("{}: refused a worker: {}", region, text);
  server_->refuse(text, Errc::lineage);
}

void WorkerSide::on_applied(Round version, const Digest& state) {
  reached(ProtocolState::apply_heard);
  holds_ = {version, state};
  // Not of a round that was taken back meanwhile.
  const bool by_record =
      applying_ && version == *applying_ + 1 && version <= context_.protocol().version();
  if (by_record && !context_.ending.failure()) {
    context_.ending.guard([&] { add_applied_round(*applying_, state); });
  }
  applying_.reset();
  context_.driver.handle(WorkerApplied{{version, state}});
}

void WorkerSide::add_applied_round(Round number, const Digest& state) {
  const RoundProtocol& protocol = context_.protocol();
  AppliedRound round{.record = protocol.record(number),
                     .own = {},
                     .steps = protocol.nominal_k(number),
                     .steps_so_far = protocol.steps_after(number),
                     .state = state};
  const auto& own = protocol.contribution();
  if (own && own->round == number) round.own = *own;
  const std::string line = context_.directory.files().add_round(round, context_.status());
  if (context_.options.on_round) context_.options.on_round(line);
}

void WorkerSide::on_snapshot(Round version, const Digest& state, Descriptor file) {
  intake_.take_snapshot({version, state}, std::move(file));
}

void WorkerSide::on_data_read(const DataDigests& data) {
  note_other_data(data.of_region);
  if (data.of_run) context_.driver.handle(WorkerReadData{*data.of_run});
}

void WorkerSide::on_report(const Progress& progress) {
  if (const auto silent = silence_.end())
    spdlog::info("{}: {} speaks again, after {} s", context_.options.region, speaker(),
                 whole_seconds(*silent));
  progress_ = progress;
  heard_at_ = steady_clock::now();
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  reported_unix_s_ = std::chrono::duration<double>(since_1970).count();
}

}  // namespace causeway::diloco
