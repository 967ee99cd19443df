#include "diloco/coordinator/worker_side.h"

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "diloco/coordinator/greeting.h"
#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "inter/base/text.h"

namespace causeway::diloco {
namespace {

using std::chrono::steady_clock;

std::int64_t whole_seconds(steady_clock::duration time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

}  // namespace

WorkerSide::WorkerSide(CoordinatorContext context)
    : context_(std::move(context)),
      intake_(context_,
              [this](bool stored) { stored ? server_->stored() : server_->not_stored(); }),
      check_(context_, [this] { on_ready(steps_); }),
      farewell_(context_, seen_, server_, intake_,
                [this](const CommitRecord& record) { carry_out(OrderApply{record}); }) {}

// ---- Life ----

void WorkerSide::open(Descriptor listening) {
  const CoordinatorOptions& options = context_.options;
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
  seen_.is_attached = false;
  Descriptor listening = server_->hand_over_listening();
  co_await server_->stop();
  server_.reset();
  open(std::move(listening));
}

asio::awaitable<void> WorkerSide::stop() {
  check_.call_off();
  if (server_) co_await server_->stop();
  co_await intake_.join();
  co_await check_.join();
}

// Whoever has its result is not to come back.
std::vector<std::uint32_t> WorkerSide::missing() const {
  if (seen_.is_attached) return missing_;
  if (seen_.progress.phase() == kPhaseDone) return {};
  std::vector<std::uint32_t> all(context_.options.workers);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

// Before its first report it may have much to read.
void WorkerSide::look_for_silence(steady_clock::time_point now) {
  const bool is_to_speak =
      seen_.is_attached && reported_unix_s_ && seen_.progress.phase() != kPhaseDone;
  if (!is_to_speak) {
    silence_.end();
    return;
  }
  if (!silence_.look(now)) return;
  spdlog::warn(
      "{}: {} has said nothing for {} s; its last word was \"{}\". It hangs, or its work takes so "
      "long. If its log stands still too, end it and start it again: the run goes on meanwhile",
      context_.options.region, speaker(), whole_seconds(silence_.lasts()),
      inter::printable(seen_.progress.phase()));
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

void WorkerSide::carry_out(const OrderFinish& action) {
  farewell_.finish({action.version, action.state});
}

// The disk fails: the worker keeps its numbers in memory and does not need us for inner steps.
void WorkerSide::train_on() {
  const std::optional<OrderContinue> steps =
      context_.protocol().steps_from(seen_.holds.version, steps_);
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
  seen_.heard_at = steady_clock::now();
  reported_unix_s_.reset();
  seen_.is_attached = seen_.has_attached = true;
  farewell_.begin_gathering();
  check_.call_off();
  intake_.begin_gathering();
  seen_.holds = {rank_0.version, rank_0.state};
  steps_ = 0;
  told_.clear();
  welcome_.reset();
  reached(ProtocolState::workers_gathered);
  // It came back to end, or to go on while nothing can be decided here.
  const std::optional<RunOutcome>& outcome = context_.ending.outcome();
  if (outcome && !context_.ending.succeeded()) return farewell_.refuse(*outcome);
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
  seen_.is_attached = false;
  welcome_.reset();
  intake_.worker_lost();
  if (!context_.ending.outcome() && seen_.progress.phase() != kPhaseDone) {
    spdlog::warn("{}: its workers are gone; it waits until they attach again",
                 context_.options.region);
    context_.ending.guard([&] { context_.add_event("workers_lost", {}, {}); });
  }
  context_.driver.handle(WorkerLost{});
}

void WorkerSide::on_ready(std::uint32_t steps) {
  steps_ = steps;
  if (context_.ending.succeeded()) return farewell_.see_off();
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
  seen_.holds = {version, state};
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
  seen_.progress = progress;
  seen_.heard_at = steady_clock::now();
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  reported_unix_s_ = std::chrono::duration<double>(since_1970).count();
}

}  // namespace causeway::diloco
