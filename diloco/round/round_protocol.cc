#include "diloco/round/round_protocol.h"

#include <algorithm>
#include <cassert>
#include <variant>

#include <fmt/format.h>

#include "diloco/log/withdraw.h"
#include "inter/base/text.h"

namespace causeway::diloco {

// ---- One round ----

std::vector<Action> RoundProtocol::handle(const Event& event, Time now) {
  assert(now >= now_);
  if (!started_) start(now);
  now_ = now;
  region_.shards.look_again();
  region_.forget_old();  // what earlier calls gave to be done is on disk
  if (!region_.out.ended()) take_in(event);
  if (!region_.out.ended()) settle();
  return region_.out.take();
}

void RoundProtocol::start(Time now) {
  started_ = true;
  region_.agreement.start(now);
  end_.start(now);
}

void RoundProtocol::take_in(const Event& event) {
  AttachedWorker& worker = region_.worker;
  const auto attach = [this, &worker](const WorkerAttached& by) {
    // Where rounds overlap, open work stays open when a record is applied.
    const bool overlaps = region_.options.overlap_steps > 0 || region_.options.pace.fragments > 1;
    worker.attach(by.holds, by.has_lineage ? std::optional(by.run_id) : std::nullopt,
                  by.common_data, by.tensors, by.open_work && !overlaps);
    beginning_.on_attached();
    data_check_.check(true, now_);
  };
  const auto arrive = [this](const BlobArrived& it) {
    exchange_.on_arrived(it.blob, now_);
    catch_up_.check_target();
  };
  const auto offer = [this](const WorkerOffered& by) {
    region_.spool.offer(by.snapshot);
    catch_up_.confirm_snapshot();
  };
  std::visit(
      Cases{[this](const RunIdLearned& told) { region_.history.begin(told.run_id); }, arrive,
            [this](const BlobLost& it) {
              exchange_.on_lost(it.blob, now_);
              summing_.on_lost(it.blob);
            },
            [this](const BlobAbsent& it) { region_.fetcher.on_absent(it.peer, it.blob, now_); },
            attach, [&worker](const WorkerReadData& by) { worker.read_data(by.common_data); },
            [&worker](const WorkerLost&) { worker.lose(); },
            [&worker](const WorkerReady& by) { worker.ask(by.steps); },
            [this](const WorkerContributed& by) { exchange_.add_own(by.contribution, now_); },
            [this](const ShardSummed& it) { summing_.on_summed(it.draft, it.shard, it.sum, now_); },
            [this](const ShardNotSummed& it) { summing_.on_failed(it.draft, it.shard); }, offer,
            [this](const SnapshotChecked& it) { catch_up_.on_checked(it.snapshot, it.right); },
            [this](const RoomNeeded& by) { catch_up_.make_room(by.bytes); }, [](const Tick&) {},
            [this](const auto& other) { on(other); }},
      event);
}

// Whatever happened: each machine does what there is to do now. The order is what it depends on.
void RoundProtocol::settle() {
  orders_.welcome();
  region_.agreement.raft().tick(now_);
  apply_committed();
  lead();
  summing_.sum(now_);
  if (region_.agreement.find_leader(now_)) {
    exchange_.tell_new_leader(now_);
    summing_.tell_leader(now_);
  }
  if (!region_.out.ended()) region_.agreement.check_removed(now_);
  if (region_.out.ended()) return;
  exchange_.time_outcome(now_);
  region_.report.set_missing(catch_up_.missing_in_vain());
  catch_up_.check_state();
  data_check_.check(false, now_);
  beginning_.check(now_);
  fetch();
  region_.report.set_awaits_snapshot(catch_up_.awaits_snapshot());
  region_.spool.release_older(region_.peers.leaps_of(region_.agreement.members()));
  region_.spool.release_old(region_.worker.applied());
  orders_.instruct(now_);
  exchange_.tell_gathered(now_);
  region_.report.publish(now_);
  end_.check(now_);
}

std::optional<Time> RoundProtocol::next_deadline() const {
  std::optional<Time> next;
  // What is already due was looked at in the last event and waits for something else.
  const auto consider = [this, &next](std::optional<Time> at) {
    if (at && *at > now_ && (!next || *at < *next)) next = at;
  };
  if (region_.out.ended()) return next;
  const Agreement& agreement = region_.agreement;
  consider(agreement.raft().next_deadline());
  if (leader_.leads()) consider(leader_.decider()->deadline());
  consider(leader_.vote_deadline());
  if (!agreement.leader()) consider(agreement.cut_off_at());
  consider(beginning_.deadline());
  consider(data_check_.deadline());
  if (!region_.peers.linked().empty()) consider(region_.fetcher.next_deadline());
  consider(exchange_.gathered_until());
  consider(region_.report.next_deadline());
  for (const std::optional<Time>& at : end_.deadlines()) consider(at);
  return next;
}

std::vector<EgressCost> RoundProtocol::agreed_egress() const {
  const CommitRecord* newest = region_.history.newest();
  return newest == nullptr ? std::vector<EgressCost>() : newest->egress;
}

double RoundProtocol::agreed_egress_cost() const {
  const std::vector<EgressCost> all = agreed_egress();
  const auto own = std::ranges::find(all, region_.options.self, &EgressCost::region);
  return own == all.end() ? 0 : own->cost;
}

// ---- The log ----

void RoundProtocol::apply_committed() {
  Index index = region_.agreement.raft().committed() + 1;
  const std::vector<LogEntry> committed = region_.agreement.drain();
  for (const LogEntry& entry : committed) apply(entry, index++);
  // Not after each: the last of them may name what was there before the first.
  if (!committed.empty()) region_.spool.discard_stale();
}

void RoundProtocol::apply(const LogEntry& entry, Index index) {
  if (const auto* membership = std::get_if<Membership>(&entry.body)) {
    region_.history.add_members(*membership);
    region_.out.push(UpdateMembers{*membership});
    region_.agreement.note_members(*membership);
    region_.shards.look_again();
  }
  const auto* record = std::get_if<CommitRecord>(&entry.body);
  if (record == nullptr) return;
  // Every region skips the same ones.
  if (record->run_id != run_id()) return;
  const Effect effect = effect_of(*record, version(), region_.history.revision());
  if (effect == Effect::next) add_record(*record, index);
  if (effect == Effect::replaces) replace_record(*record, index);
}

void RoundProtocol::add_record(const CommitRecord& record, Index index) {
  region_.history.append(index);
  region_.shards.look_again();
  summing_.check(record);
  note_budget(record);
  same_work_.check(record);
  old_copy_.check(record);
  end_.add_record(now_);
  region_.peers.note_record();
  exchange_.settle(record);
  catch_up_.confirm_snapshot();
  exchange_.open_next(record, now_);
}

// Whoever has applied what is taken back makes its state again, as one whose state is wrong does.
void RoundProtocol::replace_record(const CommitRecord& record, Index index) {
  std::string whose;
  for (const Participant& one : record.withdrawn) inter::append_item(whose, one.region);
  region_.out.note(Note::Severity::warning,
                   fmt::format("no region that can be reached has the payload of {} in round {} "
                               "any more: the run goes on from that round without it",
                               whose, record.round));
  std::vector<inter::BlobId> payloads = region_.spool.unlist_from(record.round);
  region_.history.replace(index);
  region_.shards.look_again();
  for (const inter::BlobId& made : region_.contributions.void_after(record.round))
    payloads.push_back(made);
  end_.add_record(now_);
  exchange_.settle(record);
  for (const inter::BlobId& payload : payloads) region_.spool.leave_unclaimed_if_unnamed(payload);
  region_.spool.drop_void_snapshots();
  region_.worker.void_after(record.round);
  leader_.begin_anew();
  for (const std::string& peer : region_.peers.up()) {
    if (!region_.peers.reads_the_log_as(peer, region_.history.revision())) continue;
    region_.peers.send(peer, region_.report.status());  // or it would not listen
    exchange_.tell(peer);
  }
}

// Each day's, month's or run's limit once.
void RoundProtocol::note_budget(const CommitRecord& record) {
  if (record.k_decision && record.k_decision->spending)
    region_.out.note(Note::Severity::warning, to_string(*record.k_decision));
  for (const EgressForecast& forecast : egress().forecasts(k())) {
    const std::string until = end_of(forecast.spending);
    if (forecast.at_end <= forecast.spending.limit || !budget_notes_.insert(until).second) continue;
    region_.out.note(Note::Severity::warning, to_string(forecast));
  }
}

void RoundProtocol::lead() {
  leader_.lead(now_);
  if (leader_.leads()) {
    const auto lost = end_.lost(now_);
    if (lost) leader_.withdraw(lost->round, lost->payloads, now_);
  }
  if (region_.agreement.raft().leads()) apply_committed();
}

void RoundProtocol::fetch() {
  catch_up_.look();
  catch_up_.choose_target();
  catch_up_.fetch(now_);
}

// ---- Peers ----

void RoundProtocol::on(const PeerUp& event) {
  region_.peers.set_up(event.peer, event.incarnation, event.via);
  region_.contributions.forget_word_of(event.peer);
  region_.agreement.raft().on_peer_up(event.peer, event.incarnation, now_);
  region_.fetcher.on_peer_up(event.peer, now_);
  leader_.note_link(event.peer);
  note_progress_of(event.peer);
  // Whatever was said before may not have arrived.
  region_.peers.send(event.peer, region_.report.status());
  exchange_.tell(event.peer);
  leader_.tell(event.peer);
  beginning_.tell(event.peer);
  end_.tell(event.peer);
}

void RoundProtocol::on(const PeerDown& event) {
  drop(event.peer);
}

void RoundProtocol::drop(const std::string& peer) {
  if (!region_.peers.set_down(peer)) return;
  region_.agreement.raft().on_peer_down(peer, now_);
  region_.fetcher.on_peer_down(peer, now_);
  leader_.note_link(peer);
}

// Who contradicts again and again may go on to move for ever.
void RoundProtocol::note_progress_of(const std::string& peer) {
  if (!region_.peers.doubts_for_good(peer)) end_.note_progress(now_);
}

void RoundProtocol::doubt(const std::string& peer, const std::string& what) {
  region_.peers.doubt(peer, what, membership(), now_);
  drop(peer);
}

void RoundProtocol::on(const PeerSaid& event) {
  const std::string& peer = event.peer;
  Raft& raft = region_.agreement.raft();
  if (!region_.peers.is_up(peer)) return;
  const auto agree = [&](const RaftMessage& said) {
    if (run_id().empty() || raft.on_message(peer, said, now_)) return;
    doubt(peer, "the log of " + peer + " contradicts what is committed here");
  };
  const auto ask = [&](const ChangeMember& change) {
    if (raft.leads()) leader_.ask(change, peer);
  };
  const auto learn = [&](const Holdings& all) {
    for (const Holding& holding : all.holdings) exchange_.hear(peer, holding, now_);
  };
  std::visit(Cases{[&](const Holding& holding) { exchange_.hear(peer, holding, now_); }, learn,
                   [&](const Draft& draft) { summing_.hear(peer, draft); },
                   [&](const ShardSums& sums) { leader_.hear(peer, sums, now_); }, agree, ask,
                   [&](const Finished&) { end_.on_finished(peer); },
                   [&](const Tensors& told) { beginning_.hear(peer, told); },
                   [&](const auto& other) { hear(peer, other); }},
             event.message);
}

void RoundProtocol::hear(const std::string& peer, const Status& status) {
  if (const auto head = region_.history.other_head(status)) {
    // Who is behind cannot compare a newer one, and would never learn that it is alone.
    region_.peers.send(peer, Status{.version = status.version,
                                    .head = *head,
                                    .applied = {},
                                    .payloads_from = status.version,
                                    .snapshot = {},
                                    .revision = status.revision});
    return doubt(peer,
                 fmt::format("the first {} records here and in {} differ", status.version, peer));
  }
  const bool read_the_same = region_.peers.reads_the_log_as(peer, status.revision);
  const Status* before = region_.peers.status(peer);
  if (before != nullptr && status.received_bytes > before->received_bytes)
    leader_.note_progress(peer, now_);
  const Peers::Heard heard = region_.peers.hear(peer, status);
  if (heard == Peers::Heard::stale) return;  // of an older round
  if (heard == Peers::Heard::news) note_progress_of(peer);
  leader_.set_applied(peer, status.applied);
  if (!read_the_same && status.revision == region_.history.revision()) exchange_.tell(peer);
}

void RoundProtocol::hear(const std::string& peer, const Diverged& diverged) {
  if (peer == region_.agreement.leader()) region_.reject_own(diverged);
}

void RoundProtocol::on(const BlobProgress& event) {
  if (!exchange_.on_progress(event.blob, event.received_bytes, now_)) return;
  end_.note_progress(now_);
  leader_.note_progress(region_.options.self, now_);
}

// ---- This region ----

void RoundProtocol::on(const WorkerApplied& event) {
  region_.worker.hold(event.holds);
  end_.note_progress(now_);
}

void RoundProtocol::on(const OperatorAsked& event) {
  const Raft& raft = region_.agreement.raft();
  if (raft.leads()) return leader_.ask(event.change, region_.options.self);
  if (raft.leader()) return region_.peers.send(*raft.leader(), event.change);
  region_.out.note(Note::Severity::error,
                   "the members cannot be changed while there is no leader; try again");
}

}  // namespace causeway::diloco
