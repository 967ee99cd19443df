#include <algorithm>
#include <optional>
#include <system_error>

#include <spdlog/spdlog.h>

#include "diloco/coordinator/coordinator_core.h"
#include "diloco/coordinator/spool_copy.h"
#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "inter/base/error.h"

namespace causeway::diloco {
namespace {

bool is_spool_full(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::system_error& error) {
    return error.code() == inter::Errc::spool_full;
  } catch (...) {
    return false;
  }
}

}  // namespace

void Coordinator::Implementation::on_gathered(const AttachRequest& rank_0,
                                              const std::vector<std::uint32_t>& missing) {
  ++gatherings_;
  spdlog::info("{}: {} of {} workers attached at version {}", options_.region,
               options_.workers - missing.size(), options_.workers, rank_0.version);
  note_missing(missing);
  worker_heard_at_ = std::chrono::steady_clock::now();
  worker_lost_at_.reset();
  look_for_room();  // a round that was decided meanwhile was sat out
  waits_for_room_.reset();
  worker_version_ = rank_0.version;
  told_worker_.clear();
  reached(ProtocolState::workers_gathered);
  // It came back to end, or to go on while nothing can be decided here.
  if (outcome_ || !storage_failure_.empty()) {
    return workers_->welcome(protocol_->run_id(), rank_0.contributed);
  }
  // Applied when this region's coordinator was away.
  const bool missed = rank_0.version > 0 && rank_0.version <= protocol_->version() &&
                      files_->next_round() == rank_0.version - 1;
  if (missed) guard([&] { add_applied_round(rank_0.version - 1, rank_0.state); });
  handle(WorkerAttached{{rank_0.version, rank_0.state}, rank_0.has_lineage, rank_0.run_id});
}

// A region that goes on without some of its ranks says so.
void Coordinator::Implementation::note_missing(const std::vector<std::uint32_t>& missing) {
  if (missing == std::exchange(missing_, missing)) return;
  std::string ranks;
  for (const std::uint32_t rank : missing)
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  const std::string text = missing.empty()
                               ? "all " + std::to_string(options_.workers) + " workers are back"
                               : "goes on without rank " + ranks + " of its " +
                                     std::to_string(options_.workers) + " workers";
  spdlog::log(missing.empty() ? spdlog::level::info : spdlog::level::warn, "{}: {}",
              options_.region, text);
  guard([&] {
    files_->add_event(missing.empty() ? "whole" : "degraded", {}, text, protocol_->version());
  });
}

void Coordinator::Implementation::on_worker_lost() {
  worker_lost_at_ = std::chrono::steady_clock::now();
  if (waits_for_room_) waits_for_room_->worker_asks = false;
  if (!outcome_) {
    spdlog::warn("{}: its workers are gone; it waits until they attach again", options_.region);
    guard([&] { files_->add_event("workers_lost", {}, {}, protocol_->version()); });
  }
  handle(WorkerLost{});
}

void Coordinator::Implementation::on_ready() {
  if (outcome_ && outcome_->exit_code == 0) return see_off();
  if (waits_for_room_ && storage_failure_.empty()) {
    waits_for_room_->worker_asks = true;
    told_worker_.clear();
    return look_for_room();
  }
  if (storage_failure_.empty()) return handle(WorkerReady{});
  if (!last_order_ || last_order_->round != worker_version_) {
    return workers_->waiting_for("its coordinator's disk to take data again");
  }
  execute(*last_order_);
}

// The run is over. A worker that died before it saved the last rounds is given them again.
void Coordinator::Implementation::see_off() {
  if (worker_version_ >= protocol_->version()) return workers_->finish(protocol_->version());
  const CommitRecord record = protocol_->record(worker_version_);
  const bool held = std::ranges::all_of(
      record.participants, [this](const Participant& one) { return spool_->has(one.payload); });
  if (held) return execute(OrderApply{record});
  workers_->waiting_for("the payloads of round " + std::to_string(record.round) +
                        ", which are gone: the run is over");
}

void Coordinator::Implementation::on_contribute(const Contribution& contribution,
                                                Descriptor payload) {
  const bool fits =
      contribution.region == options_.region && contribution.run_id == protocol_->run_id();
  if (!fits) {
    throw std::system_error(make_error_code(Errc::malformed),
                            "a contribution of another region or run");
  }
  // Nothing is agreed on any more, or nothing can be promised.
  if (outcome_ || !storage_failure_.empty()) return workers_->not_stored();
  if (!closing_) tasks_.spawn(store(contribution, std::move(payload), gatherings_));
}

// `gathering`: in which it was handed over.
asio::awaitable<void> Coordinator::Implementation::store(Contribution contribution,
                                                         Descriptor payload,
                                                         std::uint64_t gathering) {
  Copied copied;
  std::uint64_t size_bytes = 0;
  std::exception_ptr failure;
  try {
    size_bytes = size_of(payload);
    if (!contribution.sits_out) {
      copied = co_await copy_to_spool(std::move(payload), *spool_, thread_of(payload_copies_));
    }
  } catch (...) {
    failure = std::current_exception();
  }
  guard([&] {
    const bool full = failure && is_spool_full(failure);
    if (failure && !full && !outcome_) std::rethrow_exception(failure);
    // Those who gathered since then were told that it is not here: they hand it over again.
    if (gathering != gatherings_) return;
    if (outcome_ || !storage_failure_.empty()) return workers_->not_stored();
    if (full) return wait_for_room(contribution, size_bytes);
    if (copied.draft) spool_->finish(*copied.draft, copied.blob);
    contribution.payload = copied.blob;
    on_spooled(std::move(contribution));
  });
}

void Coordinator::Implementation::on_spooled(Contribution contribution) {
  reached(ProtocolState::payload_spooled);
  handle(WorkerContributed{std::move(contribution)});
  if (failure_ || !storage_failure_.empty()) return;
  workers_->stored();
  reached(ProtocolState::contribution_acknowledged);
}

void Coordinator::Implementation::on_applied(Round version, const Digest& state) {
  reached(ProtocolState::apply_heard);
  worker_version_ = version;
  const bool by_record = applying_ && version == *applying_ + 1;
  if (by_record && !failure_) guard([&] { add_applied_round(*applying_, state); });
  applying_.reset();
  handle(WorkerApplied{{version, state}});
}

void Coordinator::Implementation::add_applied_round(Round number, const Digest& state) {
  AppliedRound round{.record = protocol_->record(number),
                     .own = {},
                     .steps = protocol_->nominal_k(number),
                     .state = state};
  const auto& own = protocol_->contribution();
  if (own && own->round == number) round.own = *own;
  files_->add_round(round, status());
}

void Coordinator::Implementation::on_snapshot(Round version, const Digest& state, Descriptor file) {
  if (!closing_) tasks_.spawn(copy_snapshot({version, state}, std::move(file)));
}

void Coordinator::Implementation::on_report(const Progress& progress) {
  progress_ = progress;
  worker_heard_at_ = std::chrono::steady_clock::now();
}

// A snapshot that cannot be stored costs a joiner time, not the run.
asio::awaitable<void> Coordinator::Implementation::copy_snapshot(Applied holds, Descriptor file) {
  try {
    const Copied copied =
        co_await copy_to_spool(std::move(file), *spool_, thread_of(snapshot_copies_));
    const inter::BlobId& blob = copied.blob;
    if (copied.draft) spool_->finish(*copied.draft, blob);
    reached(ProtocolState::snapshot_spooled);
    // Of the last version, made when the others had finished too.
    const bool final = outcome_ && outcome_->exit_code == 0 && holds == protocol_->applied();
    if (final) ledger_->save(Snapshot{holds.version, holds.state, blob});
    handle(WorkerOffered{{holds.version, holds.state, blob}});
  } catch (const std::system_error& error) {
    spdlog::error("{}: the snapshot of version {} was not stored: {}", options_.region,
                  holds.version, error.what());
  }
}

}  // namespace causeway::diloco
