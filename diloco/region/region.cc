#include "diloco/region/region.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "diloco/log/withdraw.h"

namespace causeway::diloco {
namespace {

constexpr Round kUnreleasedTimes = 128;  // records_in_memory: some 20 MB with ten regions

}  // namespace

Status StatusReport::status() const {
  return {.version = history_.version(),
          .head = history_.head(),
          .applied = worker_.applied(),
          .payloads_from = spool_.payloads_from(),
          .snapshot = snapshot(),
          .received_bytes = received_bytes_,
          .data = worker_.data(),
          .missing = missing_,
          .revision = history_.revision(),
          .leaps = spool_.leaps(worker_.distrusted() ? std::nullopt : worker_.applied()),
          .older = older(),
          .awaits_snapshot = awaits_snapshot_};
}

// The last version's is confirmed by no record, and may be all that a region lacks.
std::optional<Snapshot> StatusReport::snapshot() const {
  const std::optional<Snapshot>& offered = spool_.offered();
  const std::optional<Applied>& applied = worker_.applied();
  const bool last = history_.over() && offered && applied && !worker_.distrusted() &&
                    *applied == Applied{history_.version(), offered->state} &&
                    offered->version == applied->version;
  return last ? offered : spool_.snapshot();
}

// Whoever fetches the one before the last goes on with it.
std::vector<Snapshot> StatusReport::older() const {
  std::vector<Snapshot> older = spool_.older();
  const std::optional<Snapshot>& confirmed = spool_.snapshot();
  if (confirmed && confirmed != snapshot()) older.push_back(*confirmed);
  return older;
}

void StatusReport::publish(Time now) {
  Status current = status();
  if (published_) {
    Status ignoring_bytes = current;
    ignoring_bytes.received_bytes = published_->received_bytes;
    if (ignoring_bytes == *published_ &&
        (current == *published_ || now < published_at_ + kReportInterval)) {
      return;
    }
  }
  peers_.broadcast(current);
  published_ = current;
  published_at_ = now;
}

std::optional<Time> StatusReport::next_deadline() const {
  if (!published_ || *published_ == status()) return std::nullopt;
  return published_at_ + kReportInterval;
}

Region::Region(ProtocolOptions given, PersistentState state)
    : options(std::move(given)),
      peers(out, options.planted),
      agreement(options, std::move(state.raft), peers, out),
      history(options, agreement.raft().log()),
      shards(options, history, agreement),
      contributions(options, history, out),
      spool(options, history, contributions, out),
      worker(out),
      report(history, worker, spool, peers) {
  if (!state.run_id.empty()) {
    history.begin(std::move(state.run_id));
    restore_log();
  }
  if (state.finished && state.finished->version == history.version()) {
    worker.restore_finished(*state.finished);
  }
  spool.restore(std::move(state.blobs), state.snapshot);
  for (const Contribution& own : state.contributions) {
    contributions.restore(own, own.sits_out || spool.holds_all(blobs_of(own)));
  }
  spool.claim_restored();
}

void Region::restore_log() {
  const Raft& raft = agreement.raft();
  for (Index index = 1; index <= raft.committed(); ++index) {
    const LogEntry& entry = raft.log().at(index);
    if (const auto* members = std::get_if<Membership>(&entry.body)) {
      history.add_members(*members);
      agreement.note_members(*members);
    }
    const auto* record = std::get_if<CommitRecord>(&entry.body);
    if (record == nullptr || record->run_id != history.run_id()) continue;
    const Effect effect = effect_of(*record, history.version(), history.revision());
    if (effect == Effect::next) history.append(index);
    if (effect == Effect::replaces) history.replace(index);
  }
}

std::uint64_t Region::held_bytes(const inter::BlobId& blob) const {
  const std::uint64_t received_bytes = fetcher.received_bytes(blob);
  if (spool.holds(blob)) return blob.size_bytes;
  if (plants(options.planted, PlantedBug::count_unchecked)) return received_bytes;
  return std::min(received_bytes, blob.size_bytes - std::min<std::uint64_t>(1, blob.size_bytes));
}

std::uint64_t Region::held_bytes(const Contribution& contribution) const {
  std::uint64_t bytes = 0;
  if (exceeds_share(contribution)) return bytes;
  for (const inter::BlobId& blob : shards.usual(contribution)) bytes += held_bytes(blob);
  return bytes;
}

bool Region::holds(const Contribution& contribution) const {
  const bool later = contribution.round > history.version() && !contribution.shards.empty();
  if (contribution.sits_out) return true;
  return !later && !exceeds_share(contribution) && spool.holds_all(shards.usual(contribution));
}

std::uint64_t Region::claimed_bytes(const Contribution& contribution) const {
  const ContributionKey key = key_of(contribution);
  const bool told = contributions.told(key);
  std::uint64_t bytes = 0;
  const auto& open = contributions.open();
  for (auto one = open.lower_bound({key.region, 0, 0});
       one != open.end() && one->first.region == key.region; ++one) {
    const bool same_teller = contributions.told(one->first) == told;
    const bool comes_first = same_teller ? one->first <= key : !told;
    if (!comes_first) continue;
    for (const inter::BlobId& blob : shards.due(one->second)) bytes += blob.size_bytes;
  }
  return bytes;
}

bool Region::exceeds_share(const Contribution& contribution) const {
  const bool asks_for_room = options.spool_bytes > 0 && contribution.region != options.self;
  if (!asks_for_room) return false;
  // What one region says leaves room enough for all others, be they ever so many.
  constexpr std::size_t kSharesMax = 4;
  const std::size_t regions = agreement.members().region_count();
  const std::size_t shares = std::clamp<std::size_t>(regions, 1, kSharesMax);
  return claimed_bytes(contribution) > options.spool_bytes / shares;
}

bool Region::keeps_payloads(const std::string& peer) const {
  const auto is_witness = [this](const std::string& name) {
    const Member* member = agreement.members().find(name);
    return member != nullptr && member->witness;
  };
  return !is_witness(peer) && !is_witness(peers.via(peer));
}

bool Region::takes_pushes(const std::string& peer) const {
  if (!keeps_payloads(peer)) return false;
  if (!peers.awaits_snapshot(peer)) return true;
  const auto holders = std::ranges::count_if(peers.up(), [&](const std::string& name) {
    return keeps_payloads(name) && !peers.awaits_snapshot(name);
  });
  const std::size_t voters = std::max<std::size_t>(agreement.members().voters(), 1);
  const std::size_t may_fail = (voters - 1) / 2;
  return static_cast<std::size_t>(holders) < std::max<std::size_t>(1, may_fail);
}

void Region::reject_own(const Diverged& diverged) {
  const Contribution* own = contributions.own(diverged.round);
  if (own == nullptr || own->payload != diverged.payload) return;
  const Applied made_from{diverged.round, own->state};
  const std::vector<inter::BlobId> blobs = blobs_of(*own);
  contributions.reject_own(diverged.round);
  // Another leader may know nothing of this and list it.
  for (const inter::BlobId& blob : blobs) spool.leave_unclaimed(blob);
  // In a tie a state that was made again before may be the right one: others have to heal. And it
  // takes a record to end this region, not the leader's word alone.
  if (worker.healed_enough(made_from.version)) return;
  if (worker.applied() == made_from) worker.distrust();
}

void Region::forget_old() {
  const Round in_use = std::max<Round>(options.records_in_memory,
                                       2 * history.rounds_kept() + options.pace.fragments);
  const Round before = std::min(spool.released(), history.last(in_use));
  const Round unreleased = kUnreleasedTimes * options.records_in_memory;
  const Round in_log = std::max(before, history.last(in_use + unreleased));
  if (in_log > 0) agreement.raft().forget_before(history.index_of(in_log));
  if (before > 0) history.forget_before(before);
}

}  // namespace causeway::diloco
