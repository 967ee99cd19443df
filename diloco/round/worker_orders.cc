#include "diloco/round/worker_orders.h"

#include <algorithm>

namespace causeway::diloco {

WorkerOrders::WorkerOrders(Region& region, const Leader& leader, const CatchUp& catch_up,
                           const Beginning& beginning)
    : options_(region.options),
      agreement_(region.agreement),
      history_(region.history),
      contributions_(region.contributions),
      peers_(region.peers),
      spool_(region.spool),
      worker_(region.worker),
      out_(region.out),
      leader_(leader),
      catch_up_(catch_up),
      beginning_(beginning) {}

void WorkerOrders::welcome() {
  const std::string& run_id = history_.run_id();
  if (!worker_.attached() || worker_.welcomed() || run_id.empty()) return;
  if (!worker_.belongs_to(run_id)) return;
  worker_.welcome();
  const Round holds = worker_.applied()->version;
  const auto& newest = contributions_.newest_own();
  const bool pending = contributions_.own(holds) != nullptr;
  const bool decided = holds < history_.version() && newest && newest->round == holds;
  out_.push(WelcomeWorker{run_id, pending || decided, beginning_.needs_initial_snapshot(),
                          spool_.newest_snapshot().value_or(0) + 1});
}

void WorkerOrders::instruct(Time now) {
  if (out_.ended() || !worker_.welcomed()) return;
  if (worker_.continuing()) call_back();
  if (!worker_.ready()) return;
  if (worker_.distrusted()) return restore();
  const Applied& applied = *worker_.applied();
  if (applied.version < history_.version()) return catch_up(now);
  const bool behind =
      peers_.are_ahead_of(history_.revision(), history_.version(), agreement_.leader());
  if (applied.version > history_.version() || behind) return;
  if (history_.over()) return worker_.finish(OrderFinish{history_.version(), applied.state});
  instruct_idle(now);
}

// Its steps beyond the round are for when there is nothing else to do.
void WorkerOrders::call_back() {
  const Round applied = worker_.applied()->version;
  const bool waits =
      applied == history_.version() || (applied < history_.version() && !can_catch_up());
  if (!waits || worker_.distrusted()) worker_.call_back();
}

// ---- The worker stands at the open round ----

void WorkerOrders::instruct_idle(Time now) {
  const std::optional<DataShare> share = history_.share();
  if (!share) return;
  if (contributions_.own(history_.version()) != nullptr) {
    // The outcome comes by record; without a majority within reach, nobody knows when.
    if (agreement_.cut_off(now)) go_on(history_.version(), history_.schedule_step());
    return;
  }
  if (knows_where_the_run_stands(now) && !beginning_.holds_back(now)) train(*share);
}

// Nobody trains before hearing from the leader where the run stands, unless there is none, nor
// before the log has said what the run begins with.
bool WorkerOrders::knows_where_the_run_stands(Time now) const {
  if (agreement_.members().members.empty()) return false;
  const std::optional<std::string>& leader = agreement_.leader();
  const bool led = leader && (leader_.leads() || peers_.status(*leader) != nullptr);
  return led || agreement_.cut_off(now);
}

// In a round that it contributed to, or that was decided without it.
void WorkerOrders::go_on(Round round, std::uint64_t schedule_step) {
  worker_.order_to_continue({.round = round,
                             .k = history_.k_of(options_.self),
                             .data_cursor = contributions_.data_cursor(),
                             .schedule_step = schedule_step,
                             .share = *history_.share()});
}

void WorkerOrders::train(const DataShare& share) {
  worker_.order(OrderTrain{.round = history_.version(),
                           .k = history_.k_of(options_.self),
                           .data_cursor = contributions_.data_cursor(),
                           .schedule_step = history_.schedule_step(),
                           .share = share,
                           .ahead = std::min(options_.overlap_steps, history_.nominal_next_k())});
  worker_.drop_more();
}

// ---- It is behind ----

void WorkerOrders::catch_up(Time now) {
  const CommitRecord& record = history_.record(worker_.applied()->version);
  if (spool_.holds_all(record)) return apply(record);
  if (may_restore()) return restore();
  wait_for_payloads(now);
}

bool WorkerOrders::can_catch_up() const {
  return spool_.holds_all(history_.record(worker_.applied()->version)) || may_restore();
}

bool WorkerOrders::may_restore() const {
  const Round applied = worker_.applied()->version;
  const std::optional<Snapshot>& snapshot = spool_.snapshot();
  const bool restorable = snapshot && snapshot->version > applied && catch_up_.trusted(*snapshot);
  // Before any peer was heard, a payload may still turn out to be available.
  const bool stays = catch_up_.can_replay(applied) && !catch_up_.replays_in_vain(applied);
  return peers_.any_heard() && restorable && !stays;
}

// Who is cut off between a record and its payloads trains on, as before a record, and so does who
// hears of records by way of a witness alone. Whether what it does still counts is seen when they
// are there.
void WorkerOrders::wait_for_payloads(Time now) {
  const bool has_detours = peers_.up().size() > peers_.linked().size();
  const bool by_witness = has_detours && !peers_.any_keeps_payloads(agreement_.members());
  if ((!agreement_.cut_off(now) && !by_witness) || !history_.share() || history_.over()) return;
  const Round applied = worker_.applied()->version;
  go_on(applied, history_.schedule_step(applied));
}

void WorkerOrders::apply(const CommitRecord& record) {
  // What was done while nobody could be reached comes late, if it still may.
  const Round late = history_.version() - record.round;
  const bool may_be_late = late <= options_.staleness_max * options_.pace.fragments;
  if (!worker_.has_more() || !may_be_late || history_.over()) {
    return worker_.order(OrderApply{record});
  }
  worker_.order(OrderCollect{record.round});
  worker_.drop_more();
}

void WorkerOrders::restore() {
  if (spool_.target()) return;
  const std::optional<Snapshot>& snapshot = spool_.snapshot();
  if (snapshot && (!worker_.distrusted() || catch_up_.helps(*snapshot))) {
    worker_.order(OrderRestore{*snapshot});
  } else if (worker_.distrusted() && catch_up_.can_begin_again()) {
    worker_.order(OrderRestore{Snapshot{}});
  } else {
    return;
  }
  worker_.drop_more();
}

}  // namespace causeway::diloco
