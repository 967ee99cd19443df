#include "diloco/coordinator/contribution_intake.h"

#include <exception>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <asio/co_spawn.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/coordinator/coordinator.h"
#include "diloco/coordinator/spool_copy.h"
#include "diloco/files/fault_point.h"
#include "diloco/files/sealed_bytes.h"
#include "inter/base/error.h"

namespace causeway::diloco {
namespace {

bool is_spool_full(const std::system_error& error) {
  return error.code() == inter::Errc::spool_full;
}

bool is_spool_full(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::system_error& error) {
    return is_spool_full(error);
  } catch (...) {
    return false;
  }
}

asio::awaitable<std::string> look_at(
    std::function<std::string(const std::filesystem::path&, const Digest&)> wrong_snapshot,
    std::filesystem::path file, Digest state) {
  co_return wrong_snapshot(file, state);
}

// Of a sharded round.
struct Cut {
  Digest whole{};
  std::vector<Descriptor> shards;
  std::string wrong = {};  // why it cannot be cut
};
asio::awaitable<Cut> cut(const ShardTools& tools, Descriptor payload, std::uint64_t size_bytes) {
  const MappedBytes mapped(payload.release(), size_bytes);
  Cut cut{.whole = tree_hash(mapped.bytes()), .shards = {}};
  std::vector<std::vector<std::byte>> pieces;
  try {
    pieces = tools.cut(mapped.bytes());
  } catch (const std::system_error& error) {
    cut.wrong = error.what();
  }
  for (std::vector<std::byte>& piece : pieces) {
    const std::vector<std::byte> shard = std::exchange(piece, {});  // not all twice in memory
    cut.shards.push_back(SealedBytes(std::span<const std::byte>(shard)).share());
  }
  co_return cut;
}

// Of this region, since the run began.
double egress_cost(const CoordinatorContext& context) {
  const auto egress = context.status().egress;
  return egress ? egress->cost : 0;
}

}  // namespace

ContributionIntake::ContributionIntake(CoordinatorContext context, Answer answer)
    : context_(std::move(context)), answer_(std::move(answer)), tasks_(context_.executor) {}

asio::any_io_executor ContributionIntake::thread_of(asio::thread_pool& own) const {
  return context_.options.copying ? context_.options.copying : own.get_executor();
}

void ContributionIntake::begin_gathering() {
  ++gatherings_;
  look_for_room();  // a round that was decided meanwhile was sat out
  waits_for_room_.reset();
}

// ---- Contributions ----

void ContributionIntake::take(const Contribution& contribution, Descriptor payload) {
  // Nothing is agreed on any more, or nothing can be promised.
  if (context_.ending.outcome() || context_.ending.storage_fails()) return answer_(false);
  if (!context_.ending.closing()) {
    tasks_.spawn(store(contribution, std::move(payload), gatherings_));
  }
}

// `gathering`: in which it was handed over.
asio::awaitable<void> ContributionIntake::store(Contribution contribution, Descriptor payload,
                                                std::uint64_t gathering) {
  std::vector<Copied> copied;
  std::uint64_t size_bytes = 0;
  std::exception_ptr failure;
  inter::Spool& spool = context_.directory.spool();
  const bool sharded = context_.protocol().sharded() && !contribution.sits_out;
  try {
    size_bytes = payload_bytes_ = size_of(payload);
    std::vector<Descriptor> parts;
    if (sharded) {
      parts = co_await shards_of(contribution, std::move(payload), size_bytes);
    } else if (!contribution.sits_out) {
      parts.push_back(std::move(payload));
    }
    for (Descriptor& part : parts)
      copied.push_back(co_await copy_to_spool(std::move(part), spool, thread_of(payload_copies_)));
  } catch (...) {
    failure = std::current_exception();
  }
  CoordinatorEnd& ending = context_.ending;
  ending.guard([&] {
    const bool full = failure && is_spool_full(failure);
    if (failure && !full && !ending.outcome()) std::rethrow_exception(failure);
    if (gathering != gatherings_) return;
    if (ending.outcome() || ending.storage_fails()) return answer_(false);
    if (full) return wait_for_room(contribution, size_bytes);
    std::vector<inter::BlobId> blobs;
    for (const Copied& part : copied) {
      if (part.draft) spool.finish(*part.draft, part.blob);
      blobs.push_back(part.blob);
    }
    if (sharded && !contribution.sits_out) {
      contribution.payload = whole_of(blobs);
      contribution.shards = std::move(blobs);
    } else {
      contribution.payload = blobs.empty() ? inter::BlobId{} : blobs.front();
    }
    on_spooled(std::move(contribution));
  });
}

// None of what cannot be decoded: its worker would hand over the same again and again.
asio::awaitable<std::vector<Descriptor>> ContributionIntake::shards_of(Contribution& contribution,
                                                                       Descriptor payload,
                                                                       std::uint64_t size_bytes) {
  Cut made = co_await asio::co_spawn(thread_of(payload_copies_),
                                     cut(context_.options.shards, std::move(payload), size_bytes),
                                     asio::use_awaitable);
  contribution.whole = made.whole;
  if (!made.wrong.empty()) {
    spdlog::error(
        "{}: what its worker contributed to round {} cannot be decoded ({}): this region sits the "
        "round out",
        context_.options.region, contribution.round, made.wrong);
    contribution.sits_out = true;
  }
  co_return std::move(made.shards);
}

void ContributionIntake::on_spooled(Contribution contribution) {
  reached(ProtocolState::payload_spooled);
  contribution.egress_cost = egress_cost(context_);
  context_.driver.handle(WorkerContributed{std::move(contribution)});
  if (context_.ending.failure() || context_.ending.storage_fails()) return;
  answer_(true);
  reached(ProtocolState::contribution_acknowledged);
}

// ---- Snapshots ----

void ContributionIntake::take_snapshot(Applied holds, Descriptor file) {
  newest_snapshot_ = holds;
  snapshot_waits_.reset();
  if (context_.ending.closing() && !is_final(holds)) return;
  tasks_.spawn(copy_snapshot(holds, std::move(file)));
}

// Of the last version: a worker writes it while its coordinator waits for it to end.
bool ContributionIntake::is_final(const Applied& holds) const {
  return context_.ending.succeeded() && holds == context_.protocol().applied();
}

// A snapshot that cannot be stored costs a joiner time, not the run.
asio::awaitable<void> ContributionIntake::copy_snapshot(Applied holds, Descriptor file) {
  std::uint64_t size_bytes = 0;
  try {
    size_bytes = size_of(file);
    inter::Spool& spool = context_.directory.spool();
    const Copied copied =
        co_await copy_to_spool(file.duplicate(), spool, thread_of(snapshot_copies_));
    if (copied.draft && context_.options.wrong_snapshot) {
      const std::string wrong = co_await asio::co_spawn(
          thread_of(snapshot_copies_),
          look_at(context_.options.wrong_snapshot, copied.draft->path(), holds.state),
          asio::use_awaitable);
      if (!wrong.empty()) {
        spdlog::error(
            "{}: checkpoints/snapshot.safetensors {}: this host's disk or memory fails. This "
            "snapshot, of version {}, is not offered to other regions{}",
            context_.options.region, wrong, holds.version,
            holds.version == 0 ? ". They wait for it: start this region's worker again" : "");
        co_return;
      }
    }
    if (copied.draft) spool.finish(*copied.draft, copied.blob);
    snapshot_waited_ = false;
    reached(ProtocolState::snapshot_spooled);
    on_snapshot_spooled({holds.version, holds.state, copied.blob});
  } catch (const std::system_error& error) {
    if (is_spool_full(error)) {
      if (holds == newest_snapshot_) wait_for_room(holds, std::move(file), size_bytes);
      co_return;
    }
    spdlog::error("{}: the snapshot of version {} was not stored: {}", context_.options.region,
                  holds.version, error.what());
  }
}

void ContributionIntake::on_snapshot_spooled(const Snapshot& snapshot) {
  if (is_final({snapshot.version, snapshot.state})) context_.directory.ledger().save(snapshot);
  context_.driver.handle(WorkerOffered{snapshot});
}

// ---- A full spool ----

void ContributionIntake::wait_for_room(const Contribution& contribution, std::uint64_t size_bytes) {
  waits_for_room_ = {.contribution = contribution, .size_bytes = size_bytes};
  spdlog::warn("{}: waiting for {}", context_.options.region, room_sentence());
  answer_(false);
  context_.driver.handle(RoomNeeded{size_bytes});
}

// Payloads before a newer snapshot can go. Without one, two regions may wait for room for ever.
void ContributionIntake::wait_for_room(Applied holds, Descriptor file, std::uint64_t size_bytes) {
  if (context_.ending.closing()) {
    return spdlog::error(
        "{}: the snapshot of the last version, {}, is not kept: its spool has no room for its {} "
        "bytes (sync.spool_gib). The one before stays",
        context_.options.region, holds.version, size_bytes);
  }
  if (!std::exchange(snapshot_waited_, true))
    spdlog::warn("{}: its spool has no room for the snapshot of version {} yet: {} bytes",
                 context_.options.region, holds.version, size_bytes);
  snapshot_waits_ = {.holds = holds, .file = std::move(file), .size_bytes = size_bytes};
  look_for_snapshots_room();
}

// Only a new round changes what can go. Asking more often would throw away what has begun to
// arrive.
void ContributionIntake::look_for_snapshots_room() {
  if (!snapshot_waits_ || context_.ending.closing()) return;
  const auto lacks = [&] {
    return snapshot_waits_->size_bytes > context_.directory.spool().free_bytes();
  };
  const Round version = context_.protocol().version();
  if (lacks() && std::exchange(snapshot_waits_->asked_at, version) != version)
    context_.driver.handle(RoomNeeded{snapshot_waits_->size_bytes});
  if (lacks()) return;
  SnapshotWaits waited = std::move(*std::exchange(snapshot_waits_, std::nullopt));
  tasks_.spawn(copy_snapshot(waited.holds, std::move(waited.file)));
}

void ContributionIntake::ask() {
  waits_for_room_->worker_asks = true;
  look_for_room();
}

void ContributionIntake::worker_lost() {
  if (waits_for_room_) waits_for_room_->worker_asks = false;
}

void ContributionIntake::look_for_room() {
  look_for_snapshots_room();
  if (!waits_for_room_) return;
  const Round round = waits_for_room_->contribution.round;
  if (round < context_.protocol().version()) {
    spdlog::warn(
        "{}: its spool had no room for the contribution to round {} before that round was "
        "decided, so it sat the round out",
        context_.options.region, round);
    // Its samples were used all the same.
    Contribution sat_out = waits_for_room_->contribution;
    sat_out.sits_out = true;
    sat_out.payload = {};
    sat_out.egress_cost = egress_cost(context_);
    context_.driver.handle(WorkerContributed{std::move(sat_out)});
    return end_wait_for_room();
  }
  const std::uint64_t size_bytes = waits_for_room_->size_bytes;
  if (size_bytes > context_.directory.spool().free_bytes())
    return context_.driver.handle(RoomNeeded{size_bytes});
  spdlog::info("{}: its spool has room again", context_.options.region);
  end_wait_for_room();
}

void ContributionIntake::end_wait_for_room() {
  if (stop_waiting()) context_.driver.handle(WorkerReady{});
}

bool ContributionIntake::stop_waiting() {
  const bool worker_asks = waits_for_room_ && waits_for_room_->worker_asks;
  waits_for_room_.reset();
  return worker_asks;
}

std::string ContributionIntake::waiting_for() const {
  return waits_for_room_ && waits_for_room_->worker_asks ? room_sentence() : "";
}

std::string ContributionIntake::room_sentence() const {
  const inter::Spool& spool = context_.directory.spool();
  return fmt::format(
      "room in its spool for the contribution to round {}: {} bytes, and {} of {} are free; if "
      "this does not pass, set a larger sync.spool_gib and start this coordinator again",
      waits_for_room_->contribution.round, waits_for_room_->size_bytes, spool.free_bytes(),
      spool.capacity_bytes());
}

}  // namespace causeway::diloco
