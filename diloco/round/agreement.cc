// RoundProtocol: the log that the regions agree on, and what its leader does.
#include <algorithm>
#include <utility>

#include "diloco/maths/hash_chain.h"
#include "diloco/round/round_protocol.h"

namespace causeway::diloco {

// ---- The log ----

void RoundProtocol::restore_log() {
  if (run_id_.empty()) return;
  heads_.push(chain_start(run_id_));
  for (Index index = 1; index <= raft_.committed(); ++index) {
    const LogEntry& entry = raft_.log().at(index);
    if (const auto* members = std::get_if<Membership>(&entry.body)) {
      data_plan_.begin(*members);
      was_member_ = was_member_ || members->find(options_.self) != nullptr;
    }
    const auto* record = std::get_if<CommitRecord>(&entry.body);
    if (record != nullptr && record->round == version()) append(index);
  }
}

void RoundProtocol::append(Index index) {
  const std::uint32_t steps = nominal_k(version());
  const std::uint64_t step = schedule_step();
  steps_before_.push(step + steps);
  if (steps == 0) ++stepless_;
  records_.add(index);
  const CommitRecord& record = records_.back();
  data_plan_.add(record);
  k_policy_.add(record, step, steps);
  heads_.push(chain_next(heads_.back(), serialize(record)));
}

bool RoundProtocol::over() const {
  return steps_before_.back() >= options_.pace.steps && stepless_ + 1 >= options_.pace.fragments;
}

// What Raft wants done, in its order: on disk first, then said, then applied.
void RoundProtocol::drain_raft() {
  const Index first_index = raft_.committed() + 1;
  Raft::Output output = raft_.take();
  if (output.save) {
    const RaftLog& log = raft_.log();
    actions_.push_back(SaveRaft{.term = raft_.term(),
                                .vote = raft_.vote(),
                                .first_index = first_index,
                                .entries = log.slice(first_index, log.last() + 1 - first_index)});
  }
  for (auto& [region, message] : output.messages) send(region, std::move(message));
  if (output.contradicted_by) {
    return end(4, "the log of " + *output.contradicted_by +
                      " contradicts what is committed here: one of the two ledgers was replaced "
                      "or edited; restore it, or start that region afresh with --join");
  }
  if (output.committed.empty()) return;
  actions_.push_back(AppendLedger{output.committed});
  for (Index index = first_index; const LogEntry& entry : output.committed) {
    apply_entry(entry, index++);
  }
}

void RoundProtocol::apply_entry(const LogEntry& entry, Index index) {
  if (const auto* membership = std::get_if<Membership>(&entry.body)) {
    data_plan_.begin(*membership);
    actions_.push_back(UpdateMembers{*membership});
    was_member_ = was_member_ || membership->find(options_.self) != nullptr;
  }
  const auto* record = std::get_if<CommitRecord>(&entry.body);
  if (record == nullptr) return;
  // Every region skips the same ones.
  if (record->run_id != run_id_ || record->round != version()) return;
  add_record(*record, index);
}

void RoundProtocol::add_record(const CommitRecord& record, Index index) {
  end_progress_at_ = now_;
  append(index);
  if (proposed_ == record.round) proposed_.reset();
  count_barren(record);
  settle_contributions(record);
  confirm_snapshot();
  if (decider_) decider_->open_next(record);
  for (const auto& [key, contribution] : contributions_) {
    if (key.round > version()) continue;
    if (decider_) {
      decider_->add(contribution, key.region, contribution.payload.size_bytes, now_);
    }
    if (contribution.sits_out || blobs_.contains(contribution.payload)) {
      report_holding(contribution, contribution.payload.size_bytes);
    }
  }
}

// Listed or expired: settled. What is made from another state than the agreed one never counts.
void RoundProtocol::settle_contributions(const CommitRecord& record) {
  std::vector<inter::BlobId> settled;
  bool own_settled = false;
  std::erase_if(contributions_, [&](const auto& entry) {
    const auto& [key, contribution] = entry;
    const bool strays = key.round == record.round && contribution.state != record.state;
    if (is_open(contribution) && !strays) return false;
    if (!contribution.sits_out) settled.push_back(contribution.payload);
    own_settled = own_settled || key.region == options_.self;
    peers_hold_.erase(key);
    return true;
  });
  if (own_settled) save_own();
  for (const inter::BlobId& blob : settled) discard(blob);
  for (const Participant& participant : record.participants) unclaimed_.erase(participant.payload);

  std::vector<inter::BlobId> stale;
  for (const auto& [blob, arrived_at] : unclaimed_) {
    if (arrived_at + 2 <= version()) stale.push_back(blob);
  }
  for (const inter::BlobId& blob : stale) discard(blob);
}

void RoundProtocol::on_message(const std::string& peer, const RaftMessage& message) {
  if (!run_id_.empty()) raft_.on_message(peer, message, now_);
}

// ---- Followers ----

// A new leader knows only what it hears.
void RoundProtocol::follow_leader() {
  const std::optional<std::string>& leader = raft_.leader();
  if (leader) leader_seen_at_ = now_;
  if (leader == told_leader_) return;
  told_leader_ = leader;
  if (!leader || *leader == options_.self) return;
  send(*leader, status());
  for (const auto& [key, contribution] : contributions_) {
    const std::uint64_t bytes = held_bytes(contribution);
    if (bytes > 0 || contribution.sits_out) report_holding(contribution, bytes);
  }
}

// No majority within reach, and for longer than an election takes.
bool RoundProtocol::cut_off() const {
  return !raft_.leader() && now_ >= leader_seen_at_ + 4 * options_.election;
}

// ---- The leader ----

void RoundProtocol::lead() {
  if (!raft_.leads()) {
    decider_.reset();
    proposed_.reset();
    asked_.clear();
    return;
  }
  if (!decider_) start_leading();
  tend_membership();
  // A record stands under the members that precede it in the log.
  decider_->set_membership(raft_.membership());
  decider_->set_applied(options_.self, applied_);
  decide();
  drain_raft();
}

void RoundProtocol::start_leading() {
  decider_.emplace(options_, raft_.membership(), records_.empty() ? nullptr : &records_.back());
  for (const std::string& peer : up_) {
    decider_->set_up(peer, true);
    const std::optional<Status>& status = peers_.at(peer).status;
    if (status) decider_->set_applied(peer, status->applied);
  }
  for (const auto& [key, contribution] : contributions_) {
    decider_->add(contribution, key.region, contribution.payload.size_bytes, now_);
    for (const auto& [peer, bytes] : peers_hold_[key]) {
      decider_->add(contribution, peer, bytes, now_);
    }
    const std::uint64_t bytes = held_bytes(contribution);
    if (bytes > 0 && !options_.witness) report_holding(contribution, bytes);
  }
  note(Note::Severity::info, "leads the run from round " + std::to_string(version()) +
                                 " on (term " + std::to_string(raft_.term()) + ")");
}

void RoundProtocol::decide() {
  const Membership& membership = raft_.membership();
  if (proposed_ || over() || !raft_.leads()) return;
  const bool few = membership.voters() < membership.majority();
  if (few && options_.planted != PlantedBug::commit_without_majority) return;
  Decider::Verdict verdict = decider_->decide({.k = nominal_k(version()),
                                               .next_k = nominal_next_k(),
                                               .since_exchange = steps_since_exchange()},
                                              now_);
  for (const Contribution& contribution : verdict.diverged) {
    note(Note::Severity::error,
         "the state of " + contribution.region + " at version " + std::to_string(version()) +
             " is not the one that most regions hold, so its contribution is not listed");
    send(contribution.region, Diverged{version(), contribution.payload, decider_->tied()});
  }
  if (verdict.record) {
    proposed_ = version();
    verdict.record->k_decision = k_policy_.next();
    raft_.propose(*verdict.record, now_);
  }
  const auto own = std::ranges::find(verdict.diverged, options_.self, &Contribution::region);
  if (own != verdict.diverged.end()) {
    on_message(options_.self, Diverged{own->round, own->payload, decider_->tied()});
  }
}

// ---- Members ----

void RoundProtocol::on(const OperatorAsked& event) {
  if (raft_.leads()) return request(event.change);
  if (raft_.leader()) return send(*raft_.leader(), event.change);
  note(Note::Severity::error, "the members cannot be changed while there is no leader; try again");
}

void RoundProtocol::on_message(const std::string&, const ChangeMember& change) {
  if (raft_.leads()) request(change);
}

void RoundProtocol::request(const ChangeMember& change) {
  asked_.push_back(change);
}

// One change at a time; the log has the earlier one first.
void RoundProtocol::tend_membership() {
  if (!raft_.electorate().settled() || change_asked_member()) return;
  const Membership& membership = raft_.membership();
  for (const Member& member : membership.members) {
    const auto peer = peers_.find(member.region);
    if (member.region == options_.self || peer == peers_.end() ||
        peer->second.incarnation.empty()) {
      continue;
    }
    Member changed = member;
    if (member.incarnation.empty() && raft_.caught_up(member.region)) {
      changed.incarnation = peer->second.incarnation;
    } else if (!member.incarnation.empty() && member.incarnation != peer->second.incarnation) {
      note(Note::Severity::warning,
           member.region +
               " came back without its ledger, so it has no vote until it has caught up");
      changed.incarnation.clear();
    } else {
      continue;
    }
    return raft_.propose(with(membership, std::move(changed)), now_);
  }
}

// Without most of the votes no round is made.
bool RoundProtocol::leaves_too_few(const std::string& region, const Membership& changed) {
  const Member* leaving = raft_.membership().find(region);
  const bool had_vote = leaving != nullptr && !leaving->incarnation.empty();
  if (!had_vote || changed.voters() >= changed.majority()) return false;
  std::string voteless;
  for (const Member& member : changed.members) {
    if (member.incarnation.empty()) voteless += (voteless.empty() ? "" : ", ") + member.region;
  }
  note(Note::Severity::error,
       region +
           " is not removed, because too few of the others have a vote. Wait until these have " +
           "caught up (`causeway members list`), or remove them first: " + voteless);
  return true;
}

bool RoundProtocol::change_asked_member() {
  while (!asked_.empty()) {
    const ChangeMember change = asked_.front();
    asked_.erase(asked_.begin());
    const Membership& membership = raft_.membership();
    const Member* known = membership.find(change.member.region);
    Membership changed = without(membership, change.member.region);
    if (!change.remove) {
      Member member = change.member;
      member.incarnation = known == nullptr ? "" : known->incarnation;
      changed = with(membership, std::move(member));
    }
    if (changed == membership || changed.members.empty()) continue;
    if (change.remove && leaves_too_few(change.member.region, changed)) continue;
    raft_.propose(changed, now_);
    return true;
  }
  return false;
}

}  // namespace causeway::diloco
