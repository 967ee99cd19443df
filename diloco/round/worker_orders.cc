#include "diloco/round/worker_orders.h"

#include <algorithm>

namespace causeway::diloco {

void WorkerOrders::welcome() {
  const std::string& run_id = region_.history.run_id();
  if (!region_.worker.attached() || region_.worker.welcomed() || run_id.empty()) return;
  if (!region_.worker.belongs_to(run_id)) return;
  region_.worker.welcome();
  const Round holds = region_.worker.applied()->version;
  const auto& newest = region_.contributions.newest_own();
  const bool pending = region_.contributions.own(holds) != nullptr;
  const bool decided = holds < region_.history.version() && newest && newest->round == holds;
  region_.out.push(WelcomeWorker{run_id, pending || decided, beginning_.needs_initial_snapshot(),
                                 region_.spool.newest_snapshot().value_or(0) + 1});
}

void WorkerOrders::instruct(Time now) {
  if (region_.out.ended() || !region_.worker.welcomed()) return;
  if (region_.worker.continuing()) call_back();
  if (!region_.worker.ready()) return;
  if (region_.worker.distrusted()) return restore();
  const Applied& applied = *region_.worker.applied();
  if (applied.version < region_.history.version()) return catch_up(now);
  const bool behind = region_.peers.are_ahead_of(
      region_.history.revision(), region_.history.version(), region_.agreement.leader());
  if (applied.version > region_.history.version() || behind) return;
  if (region_.history.over())
    return region_.worker.finish(OrderFinish{region_.history.version(), applied.state});
  instruct_idle(now);
}

// Its steps beyond the round are for when there is nothing else to do.
void WorkerOrders::call_back() {
  const Round applied = region_.worker.applied()->version;
  const bool waits = applied == region_.history.version() ||
                     (applied < region_.history.version() && !can_catch_up());
  if (!waits || region_.worker.distrusted()) region_.worker.call_back();
}

// ---- The worker stands at the open round ----

void WorkerOrders::instruct_idle(Time now) {
  const std::optional<DataShare> share = region_.history.share();
  if (!share) return;
  if (region_.contributions.own(region_.history.version()) != nullptr) {
    // The outcome comes by record; without a majority within reach, nobody knows when.
    if (region_.agreement.cut_off(now)) go_on(now);
    return;
  }
  const bool held_back = beginning_.holds_back(now) || !data_check_.waits_for(now).empty();
  if (knows_where_the_run_stands(now) && !held_back) train(*share);
}

// Nobody trains before hearing from the leader where the run stands, unless there is none, nor
// before the log has said what the run begins with.
bool WorkerOrders::knows_where_the_run_stands(Time now) const {
  if (region_.agreement.members().members.empty()) return false;
  const std::optional<std::string>& leader = region_.agreement.leader();
  const bool led = leader && (leader_.leads() || region_.peers.status(*leader) != nullptr);
  return led || region_.agreement.cut_off(now);
}

// In a round that it contributed to, or that was decided without it. What it does is collected
// before it applies that round's record.
void WorkerOrders::go_on(Time now) {
  const auto steps = steps_from(region_.worker.applied()->version, region_.worker.steps());
  if (steps && data_check_.waits_for(now).empty()) region_.worker.order_to_continue(*steps);
}

// None for a state that is to be replaced, and none beyond the steps that the run had left after
// this version: the others may have ended meanwhile, and who hears of that drops such work. A
// worker that is told to take none asks again at once.
std::optional<OrderContinue> WorkerOrders::steps_from(Round version, std::uint32_t taken) const {
  const RunHistory& history = region_.history;
  const bool known = !history.run_id().empty() && !region_.agreement.members().members.empty();
  const bool open = version <= history.version() && !history.over() && history.share();
  if (!known || !open || region_.worker.distrusted()) return std::nullopt;
  const std::uint64_t left = history.steps_left(version, taken);
  const std::uint32_t k = history.k_of(region_.options.self);
  const OrderContinue steps{.round = version,
                            .k = static_cast<std::uint32_t>(std::min<std::uint64_t>(k, left)),
                            .data_cursor = region_.contributions.data_cursor(),
                            .schedule_step = history.schedule_step(version),
                            .share = *history.share()};
  return steps.k > 0 ? std::optional(steps) : std::nullopt;
}

void WorkerOrders::train(const DataShare& share) {
  region_.worker.order(OrderTrain{
      .round = region_.history.version(),
      .k = region_.history.k_of(region_.options.self),
      .data_cursor = region_.contributions.data_cursor(),
      .schedule_step = region_.history.schedule_step(),
      .share = share,
      .ahead = std::min(region_.options.overlap_steps, region_.history.nominal_next_k())});
}

// ---- It is behind ----

void WorkerOrders::catch_up(Time now) {
  if (catch_up_.leaps()) return restore();
  const CommitRecord& record = region_.history.record(region_.worker.applied()->version);
  if (region_.spool.holds_all(record)) return apply(record, now);
  if (may_restore()) return restore();
  wait_for_payloads(now);
}

bool WorkerOrders::can_catch_up() const {
  return region_.spool.holds_all(region_.history.record(region_.worker.applied()->version)) ||
         may_restore() || catch_up_.leaps();
}

bool WorkerOrders::may_restore() const {
  const Round applied = region_.worker.applied()->version;
  const std::optional<Snapshot>& snapshot = region_.spool.snapshot();
  const bool restorable = snapshot && snapshot->version > applied && catch_up_.trusted(*snapshot);
  // Before any peer was heard, a payload may still turn out to be available.
  const bool stays = catch_up_.can_replay(applied) && !catch_up_.replays_in_vain(applied);
  return region_.peers.any_heard() && restorable && !stays;
}

// Who is cut off between a record and its payloads trains on, as before a record, and so does who
// hears of records by way of a witness alone. Whether what it does still counts is seen when they
// are there.
void WorkerOrders::wait_for_payloads(Time now) {
  const bool has_detours = region_.peers.up().size() > region_.peers.linked().size();
  const bool by_witness =
      has_detours && !region_.peers.any_keeps_payloads(region_.agreement.members());
  if (region_.agreement.cut_off(now) || by_witness) go_on(now);
}

void WorkerOrders::apply(const CommitRecord& record, Time now) {
  // What was done while nobody could be reached, or before the worker lost its coordinator, comes
  // late, if it still may.
  const Round late = region_.history.version() - record.round;
  const bool may_be_late = late <= region_.options.staleness_max * region_.options.pace.fragments;
  if (!region_.worker.has_more() || !may_be_late || region_.history.over()) {
    return region_.worker.order(OrderApply{record});
  }
  if (!data_check_.waits_for(now).empty()) return;  // it may be of wrong data
  region_.worker.order(OrderCollect{record.round});
  region_.worker.drop_more();
}

void WorkerOrders::restore() {
  if (region_.spool.target()) return;
  const std::optional<Snapshot>& snapshot = region_.spool.snapshot();
  if (snapshot && (!region_.worker.distrusted() || catch_up_.helps(*snapshot))) {
    region_.worker.order(OrderRestore{*snapshot});
  } else if (region_.worker.distrusted() && catch_up_.can_begin_again()) {
    region_.worker.order(OrderRestore{Snapshot{}});
  } else {
    return;
  }
  region_.worker.drop_more();
}

}  // namespace causeway::diloco
