// Cluster: its workers, which apply at once and hash what they applied.
#include <algorithm>
#include <utility>

#include "tests/diloco/cluster/cluster_parts.h"

namespace causeway::diloco::testing {

using std::chrono::milliseconds;
using std::chrono::seconds;

void Cluster::later_in_session(const std::string& region, Time delay,
                               std::function<void()> action) {
  const Worker& worker = nodes_.at(region).worker;
  at(now_ + delay,
     [this, region, life = worker.life, session = worker.session, action = std::move(action)] {
       const Worker& later = nodes_.at(region).worker;
       if (later.life == life && later.session == session) action();
     });
}

void Cluster::attach_worker(const std::string& region) {
  Worker& worker = nodes_.at(region).worker;
  ++worker.session;
  later_in_session(region, random_time(milliseconds{10}, milliseconds{800}), [this, region] {
    Worker& attached = nodes_.at(region).worker;
    attached.may_have_more = attached.extra > 0;
    deliver(region, WorkerAttached{.holds = attached.holds,
                                   .has_lineage = attached.has_lineage,
                                   .run_id = attached.has_lineage ? kRunId : "",
                                   .open_work = attached.may_have_more});
  });
}

void Cluster::say_ready(const std::string& region) {
  const std::uint32_t steps = nodes_.at(region).worker.steps;
  deliver(region, WorkerReady{options_.counts_steps ? steps : 0});
}

Time Cluster::compute_time(const std::string& region) {
  const auto slow = options_.slowness.find(region);
  const int factor = slow == options_.slowness.end() ? 1 : slow->second;
  return factor * random_time(options_.compute_min, options_.compute_max);
}

double Cluster::egress_cost(const std::string& region) {
  Node& node = nodes_.at(region);
  const double now = options_.price * static_cast<double>(node.sent_bytes - node.sent_before);
  return node.protocol ? node.egress.total(now, node.protocol->agreed_egress_cost()) : 0;
}

void Cluster::train(const std::string& region, const OrderTrain& order) {
  Node& node = nodes_.at(region);
  if (order.round != node.worker.holds.version) throw Violation(region + " trains another round");
  if (options_.forked && node.worker.holds.state == initial_state()) {
    throw Violation(region + " trains fresh weights in a forked run");
  }
  for (const Contribution& saved : node.disk.contributions) {
    if (order.data_cursor < saved.data_cursor) throw Violation(region + " repeats samples");
  }
  const std::optional<Contribution>& made = node.worker.made;
  const bool lost = made && made->round == order.round && !holds_all(region, blobs_of(*made));
  if (lost) return hand_over_again(region);
  node.worker.extra = node.worker.steps = 0;
  node.worker.extra_from = order.data_cursor + (order.k > 0 ? 10 : 0);
  const Time four_steps = compute_time(region);
  const Time left = four_steps * (order.k - std::min(order.k, node.worker.ahead)) / 4;
  const double took_s = std::chrono::duration<double>(four_steps).count() * order.k / 4;
  node.worker.ahead = order.ahead;
  later_in_session(region, left, [this, region, order, took_s] {
    contribute(region,
               {.run_id = {},
                .region = region,
                .round = order.round,
                .part = 0,
                .steps = order.k,
                .compute_s = took_s,
                .data_begin = order.data_cursor},
               compute_time(region) * order.ahead / 4);
  });
}

void Cluster::contribute(const std::string& region, Contribution contribution, Time ahead) {
  const Worker& worker = nodes_.at(region).worker;
  contribution.run_id = kRunId;
  contribution.tokens = 100 + random_() % 50;
  const std::uint64_t samples = contribution.part > 0    ? worker.extra
                                : contribution.steps > 0 ? 10
                                                         : 0;
  contribution.data_cursor = contribution.data_begin + samples;
  contribution.state = worker.holds.state;
  if (contribution.part > 0) contribution.compute_s = 3;
  if (options_.k_policy.adapts())
    contribution.held_out_loss = 2 + 1e-3 * static_cast<double>(random_() % 100);
  contribution.egress_cost = egress_cost(region);
  contribution.delta_norm = 1;
  contribution.error_norm = 0.1;
  const std::uint64_t bytes =
      options_.payload_bytes_min +
      random_() % (options_.payload_bytes_max - options_.payload_bytes_min + 1);
  if ((real_ ? kRealBytes : 1) * bytes > room(region))
    return wait_for_room(region, contribution, ahead, bytes);
  const std::string content =
      region + std::to_string(contribution.round) + "/" + std::to_string(random_());
  const auto& protocol = nodes_.at(region).protocol;
  if (protocol && protocol->sharded() && contribution.part == 0) {
    contribution.shards = keep_shards(region, content, bytes);
    contribution.payload = whole_of(contribution.shards);
  } else {
    contribution.payload = keep(region, content, bytes);
  }
  history_.made(contribution);
  if (contribution.part == 0) nodes_.at(region).worker.made = contribution;
  hand_over(region, contribution, ahead);
}

void Cluster::hand_over(const std::string& region, const Contribution& contribution, Time ahead) {
  nodes_.at(region).worker.steps += contribution.part == 0 ? contribution.steps : 0;
  deliver(region, WorkerContributed{contribution});
  later_in_session(region, milliseconds{1} + ahead, [this, region] { say_ready(region); });
}

// As ContributionIntake does.
void Cluster::wait_for_room(const std::string& region, const Contribution& contribution, Time ahead,
                            std::uint64_t bytes) {
  deliver(region, RoomNeeded{(real_ ? kRealBytes : 1) * bytes});
  later_in_session(region, milliseconds{250}, [this, region, contribution, ahead] {
    if (version(region) <= contribution.round) return contribute(region, contribution, ahead);
    Contribution sat_out = contribution;
    sat_out.sits_out = true;
    hand_over(region, sat_out, ahead);
  });
}

// What it did is done, and its payload is in its memory.
void Cluster::hand_over_again(const std::string& region) {
  later_in_session(region, milliseconds{5}, [this, region] {
    const Contribution made = *nodes_.at(region).worker.made;
    for (const inter::BlobId& blob : blobs_of(made)) store(region, blob);
    deliver(region, WorkerContributed{made});
    later_in_session(region, milliseconds{1}, [this, region] { say_ready(region); });
  });
}

// It goes on while nobody can be reached.
void Cluster::go_on(const std::string& region, const OrderContinue& order) {
  Worker& worker = nodes_.at(region).worker;
  worker.continuing = worker.may_have_more = true;
  worker.extra += 10;
  later_in_session(region, compute_time(region), [this, region, order] {
    Worker& later = nodes_.at(region).worker;
    if (!std::exchange(later.continuing, false)) return;
    later.steps += order.k;
    say_ready(region);
  });
}

void Cluster::call_back(const std::string& region) {
  Worker& worker = nodes_.at(region).worker;
  if (!std::exchange(worker.continuing, false)) return;
  ++worker.steps;
  later_in_session(region, milliseconds{20}, [this, region] { say_ready(region); });
}

void Cluster::collect(const std::string& region, Round round) {
  Worker& worker = nodes_.at(region).worker;
  if (worker.holds.version != round) throw Violation(region + " collects of another round");
  if (!std::exchange(worker.may_have_more, false))
    throw Violation(region + " has nothing to collect");
  // It may be in the round's contribution by now.
  if (worker.extra == 0)
    return later_in_session(region, milliseconds{1}, [this, region] { say_ready(region); });
  later_in_session(region, milliseconds{100}, [this, region, round] {
    Worker& later = nodes_.at(region).worker;
    contribute(
        region,
        {.run_id = {}, .region = region, .round = round, .part = 1, .data_begin = later.extra_from},
        Time{0});
    later.extra_from += later.extra;
    later.extra = 0;
  });
}

void Cluster::apply(const std::string& region, const OrderApply& order) {
  Node& node = nodes_.at(region);
  if (order.record.round != node.worker.holds.version)
    throw Violation(region + " applies another round");
  const std::vector<inter::BlobId> payloads = applied_blobs(order.record);
  if (!holds_all(region, payloads))
    throw Violation(region + " applies a payload that is not on its disk");
  if (!hands_over(region, payloads)) return;
  const Applied next{.version = order.record.round + 1,
                     .state = next_state(node.worker.holds.state, order.record)};
  const auto slow = options_.apply_min.find(region);
  const Time least = slow == options_.apply_min.end() ? Time{0} : slow->second;
  later_in_session(region, least + random_time(milliseconds{5}, milliseconds{200}),
                   [this, region, next] { after_apply(region, next); });
}

bool Cluster::holds_all(const std::string& region, const std::vector<inter::BlobId>& blobs) const {
  const auto& disk = nodes_.at(region).disk.blobs;
  return std::ranges::all_of(blobs, [&disk](const auto& blob) { return disk.contains(blob); });
}

std::vector<inter::BlobId> Cluster::keep_shards(const std::string& region,
                                                const std::string& content, std::uint64_t bytes) {
  std::vector<inter::BlobId> shards;
  for (std::size_t i = 0; i < options_.shards; ++i)
    shards.push_back(keep(region, content + "." + std::to_string(i), bytes / options_.shards + 1));
  return shards;
}

// Its coordinator does, in a thread: the same inputs give the same sum everywhere.
void Cluster::sum(const std::string& region, const SumShard& order) {
  at(now_ + random_time(milliseconds{5}, milliseconds{200}),
     [this, region, order, life = nodes_.at(region).life] {
       const Node& node = nodes_.at(region);
       if (!alive(region) || node.life != life) return;
       if (node.paused_until > now_)
         return at(node.paused_until, [this, region, order] { sum(region, order); });
       const Digest draft = draft_digest(order.draft);
       const bool damaged = std::ranges::any_of(
           order.inputs, [&node](const auto& blob) { return node.damaged.contains(blob); });
       if (damaged || !holds_all(region, order.inputs)) {
         for (const inter::BlobId& blob : order.inputs) find_damage(region, blob);
         return deliver(region, ShardNotSummed{draft, order.shard});
       }
       std::string content = "sum " + std::to_string(order.shard);
       for (const inter::BlobId& input : order.inputs) content += " " + to_hex(input.hash);
       const inter::BlobId made = keep(region, content, order.inputs.front().size_bytes);
       history_.summed(made, order.draft.round);
       deliver(region, ShardSummed{draft, order.shard, made});
     });
}

void Cluster::restore(const std::string& region, const OrderRestore& order) {
  const bool initial = order.snapshot.blob.size_bytes == 0;
  if (initial && options_.forked) throw Violation(region + " begins a forked run afresh");
  if (!initial && !nodes_.at(region).disk.blobs.contains(order.snapshot.blob)) {
    throw Violation(region + " restores a snapshot that is not on its disk");
  }
  if (!initial && !hands_over(region, {order.snapshot.blob})) return;
  if (!initial && snapshots_[order.snapshot.blob] != order.snapshot.state)
    throw Violation(region + " restores what is no snapshot of the state");
  ++restores_;
  const Applied next{.version = order.snapshot.version,
                     .state = initial ? initial_state() : order.snapshot.state};
  later_in_session(region, milliseconds{50}, [this, region, next] { after_apply(region, next); });
}

void Cluster::check(const std::string& region, const Snapshot& snapshot) {
  at(now_ + milliseconds{1}, [this, region, snapshot] {
    Node& node = nodes_.at(region);
    if (!alive(region)) return;
    if (node.paused_until > now_)
      return at(node.paused_until, [this, region, snapshot] { check(region, snapshot); });
    if (node.damaged.contains(snapshot.blob)) return find_damage(region, snapshot.blob);
    if (!node.disk.blobs.contains(snapshot.blob)) return;
    const bool right = snapshots_[snapshot.blob] == snapshot.state;
    if (!right) ++refusals_;
    deliver(region, SnapshotChecked{snapshot, right});
  });
}

// One that does not fit waits for room, in the coordinator's memory.
void Cluster::offer_snapshot(const std::string& region, const Applied& holds) {
  const std::uint64_t bytes = (real_ ? kRealBytes : 1) * kSnapshotBytes;
  if (bytes > room(region)) deliver(region, RoomNeeded{bytes});
  if (bytes > room(region)) {
    return at(now_ + milliseconds{250}, [this, region, holds, life = nodes_.at(region).life] {
      const Node& later = nodes_.at(region);
      const bool newest = later.worker.checkpoint.version <= holds.version;
      if (alive(region) && later.life == life && newest) offer_snapshot(region, holds);
    });
  }
  const inter::BlobId blob = keep(region, "snapshot " + to_hex(holds.state), kSnapshotBytes);
  snapshots_[blob] = holds.state;
  deliver(region, WorkerOffered{{holds.version, holds.state, blob}});
}

void Cluster::after_apply(const std::string& region, Applied holds) {
  Node& node = nodes_.at(region);
  node.worker.holds = holds;
  node.worker.made.reset();
  node.worker.steps = 0;
  node.worker.extra = 0;  // what was not collected is dropped
  node.worker.may_have_more = false;
  deliver(region, WorkerApplied{holds});
  if (holds.version % options_.checkpoint_rounds == 0 && alive(region)) {
    node.worker.checkpoint = holds;
    node.worker.checkpoint_has_lineage = true;
    node.worker.offered = holds;
    offer_snapshot(region, holds);
  }
  later_in_session(region, milliseconds{1}, [this, region] { say_ready(region); });
}

}  // namespace causeway::diloco::testing
