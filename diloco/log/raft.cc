#include "diloco/log/raft.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace causeway::diloco {
namespace {

constexpr std::size_t kEntriesPerMessage = 64;

}  // namespace

Raft::Raft(RaftOptions options, RaftState state)
    : options_(std::move(options)),
      term_(state.term),
      vote_(std::move(state.vote)),
      log_(std::move(state.log), state.first, state.earlier),
      random_(options_.seed),
      commit_(state.committed),
      handed_out_(state.committed) {
  assert(commit_ <= last_index());
  for (Index index = 1; index <= last_index(); ++index) note_membership(index);
}

void Raft::note_membership(Index index) {
  const auto* membership = std::get_if<Membership>(&log_.at(index).body);
  if (membership == nullptr) return;
  // The newest that is committed decides with those after it.
  if (membership_settled() && memberships_.size() > 1) {
    memberships_.erase(memberships_.begin(), memberships_.end() - 1);
  }
  memberships_.push_back({index, *membership});
}

Raft::Output Raft::take() {
  Output output = std::exchange(output_, {});
  output.committed = log_.slice(handed_out_ + 1, commit_ - handed_out_);
  handed_out_ = commit_;
  return output;
}

// ---- Who counts ----

const Membership& Raft::membership() const {
  static const Membership kNone;
  if (memberships_.empty()) return kNone;
  return memberships_.back().membership;
}

bool Raft::membership_settled() const {
  return memberships_.empty() || memberships_.back().index <= commit_;
}

const Membership* Raft::replaced() const {
  if (membership_settled() || memberships_.size() < 2) return nullptr;
  return &memberships_[memberships_.size() - 2].membership;
}

bool Raft::votes(const std::string& region) const {
  if (region == options_.self) return membership().votes(region, options_.incarnation);
  const auto peer = peers_.find(region);
  return peer != peers_.end() && membership().votes(region, peer->second.incarnation);
}

// Voters whose disk is known to be gone.
std::size_t Raft::lost_voters(const Membership& membership) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(membership.members, [this](const Member& member) {
        if (member.incarnation.empty()) return false;
        if (member.region == options_.self) return member.incarnation != options_.incarnation;
        const auto peer = peers_.find(member.region);
        return peer != peers_.end() && peer->second.incarnation != member.incarnation;
      }));
}

// A majority of the voters; or all that are left when a minority of them is lost.
std::size_t Raft::quorum(const Membership& membership) const {
  const std::size_t voters = membership.voters();
  const std::size_t majority = voters / 2 + 1;
  if (options_.planted == PlantedBug::commit_without_majority) return 1;
  const std::size_t lost = lost_voters(membership);
  return lost < majority ? std::min(majority, voters - lost) : majority;
}

bool Raft::is_quorum(const std::set<std::string>& regions, const Membership& membership) const {
  const auto votes = [this, &membership](const std::string& region) {
    if (region == options_.self) return membership.votes(region, options_.incarnation);
    const auto peer = peers_.find(region);
    return peer != peers_.end() && membership.votes(region, peer->second.incarnation);
  };
  return static_cast<std::size_t>(std::ranges::count_if(regions, votes)) >= quorum(membership);
}

// A majority of the newest members; where a vote is added, of those before it too: of an even
// number half may stand for election alone if the others lost their disks, and must not have missed
// it. Whoever is removed is not needed: it may be gone as soon as it has the entry.
bool Raft::may_commit(const std::set<std::string>& have) const {
  if (!is_quorum(have, membership())) return false;
  const Membership* before = replaced();
  return before == nullptr || before->voters() >= membership().voters() || is_quorum(have, *before);
}

bool Raft::is_up_to_date(Index last_index_there, Term last_term) const {
  const Term own_term = term_at(last_index());
  return last_term != own_term ? last_term > own_term : last_index_there >= last_index();
}

// ---- Roles and elections ----

bool Raft::leader_is_alive(Time now) const {
  if (options_.planted == PlantedBug::no_pre_vote) return false;
  if (role_ == Role::leader) return true;  // check_quorum ends it otherwise
  return leader_heard_at_ && now < *leader_heard_at_ + options_.election;
}

// Whoever is being removed may be the only one that knows of it: it stands until that is committed
// (Ongaro's dissertation, 4.2.2).
bool Raft::may_stand() const {
  const Membership* before = replaced();
  return votes(options_.self) ||
         (before != nullptr && before->votes(options_.self, options_.incarnation));
}

void Raft::arm_election(Time now) {
  std::uniform_int_distribution<Time::rep> more(0, options_.election.count());
  election_at_ = now + options_.election + Time{more(random_)};
}

void Raft::become_follower(Term term, std::optional<std::string> leader, Time now) {
  if (term > term_) {
    term_ = term;
    vote_.clear();
    output_.save = true;
  }
  if (role_ == Role::leader) leader_heard_at_.reset();
  role_ = Role::follower;
  leader_ = std::move(leader);
  if (leader_) leader_heard_at_ = now;
  votes_.clear();
  arm_election(now);
}

void Raft::ask_for_votes(bool pre, Time now) {
  pre_ = pre;
  votes_.clear();
  leader_.reset();
  role_ = pre ? Role::follower : Role::candidate;
  if (!pre) {
    ++term_;
    vote_ = options_.self;
    output_.save = true;
  }
  arm_election(now);
  for (const auto& [region, peer] : peers_) {
    if (!votes(region)) continue;
    send(region, VoteRequest{.term = term_ + (pre ? 1 : 0),
                             .pre = pre,
                             .last_index = last_index(),
                             .last_term = term_at(last_index())});
  }
  count_vote(options_.self, now);
}

void Raft::count_vote(const std::string& region, Time now) {
  votes_.insert(region);
  if (!is_quorum(votes_, membership())) return;
  if (pre_) return ask_for_votes(false, now);
  become_leader(now);
}

void Raft::become_leader(Time now) {
  role_ = Role::leader;
  leader_ = options_.self;
  votes_.clear();
  for (auto& [region, peer] : peers_) {
    peer.next = last_index() + 1;
    peer.match = 0;
    peer.awaiting = false;
    peer.heard_at = now;
  }
  own_first_ = last_index() + 1;
  append({.term = term_, .body = {}}, now);
}

// A leader that cannot reach enough others may have been replaced: it stops before it misleads.
void Raft::check_quorum(Time now) {
  std::set<std::string> heard{options_.self};
  for (const auto& [region, peer] : peers_) {
    if (now < peer.heard_at + 2 * options_.election) heard.insert(region);
  }
  if (!is_quorum(heard, membership())) become_follower(term_, std::nullopt, now);
}

// ---- Events ----

void Raft::on_peer_up(const std::string& region, const std::string& incarnation, Time now) {
  peers_[region] = {.incarnation = incarnation, .next = last_index() + 1, .heard_at = now};
  if (role_ == Role::leader) {
    send_entries(region, peers_[region], now);
  } else if (!leader_is_alive(now) && membership().voters() > 0) {
    // Whoever comes may make the quorum that was missing.
    std::uniform_int_distribution<Time::rep> soon(0, options_.election.count() / 8);
    election_at_ = std::min(election_at_, now + Time{soon(random_)});
  }
}

void Raft::on_peer_down(const std::string& region, Time now) {
  peers_.erase(region);
  if (leader_ != region) return;
  leader_.reset();
  leader_heard_at_.reset();
  std::uniform_int_distribution<Time::rep> soon(0, options_.election.count() / 4);
  election_at_ = now + options_.heartbeat / 4 + Time{soon(random_)};
}

void Raft::tick(Time now) {
  if (role_ == Role::leader) {
    check_quorum(now);
    if (role_ != Role::leader) return;
    for (auto& [region, peer] : peers_) {
      if (now >= peer.sent_at + options_.heartbeat) send_entries(region, peer, now);
    }
    return;
  }
  if (election_at_ == Time{0}) {
    // A run of one region needs nobody's word.
    const bool alone = membership().voters() == 1 && votes(options_.self);
    if (alone) return ask_for_votes(true, now);
    arm_election(now);
  }
  if (now < election_at_) return;
  if (!may_stand()) return arm_election(now);
  ask_for_votes(options_.planted != PlantedBug::no_pre_vote, now);
}

std::optional<Time> Raft::next_deadline() const {
  if (role_ != Role::leader) return election_at_;
  std::optional<Time> next;
  for (const auto& [region, peer] : peers_) {
    const Time soonest =
        std::min(peer.sent_at + options_.heartbeat, peer.heard_at + 2 * options_.election);
    if (!next || soonest < *next) next = soonest;
  }
  return next;
}

void Raft::on_message(const std::string& region, const RaftMessage& message, Time now) {
  const auto peer = peers_.find(region);
  if (peer == peers_.end() || peer->second.incarnation != message.incarnation) return;
  peer->second.heard_at = now;
  std::visit([&](const auto& body) { on(region, body, now); }, message.body);
}

void Raft::on(const std::string& region, const VoteRequest& request, Time now) {
  const bool disturbs = leader_is_alive(now) && leader_ != region;
  const bool log_suffices = is_up_to_date(request.last_index, request.last_term);
  VoteReply reply{.term = term_, .pre = request.pre, .granted = false};
  if (request.pre) {
    reply.granted = request.term > term_ && log_suffices && !disturbs;
    if (reply.granted) reply.term = request.term;
    return send(region, reply);
  }
  if (request.term < term_ || disturbs) return send(region, reply);
  if (request.term > term_) become_follower(request.term, std::nullopt, now);
  reply.term = term_;
  const bool free = vote_.empty() || vote_ == region;
  if (free && log_suffices && role_ == Role::follower) {
    reply.granted = true;
    if (vote_.empty()) output_.save = true;
    vote_ = region;
    arm_election(now);
  }
  send(region, reply);
}

void Raft::on(const std::string& region, const VoteReply& reply, Time now) {
  if (!reply.granted) {
    if (reply.term > term_) become_follower(reply.term, std::nullopt, now);
    return;
  }
  const bool asked =
      pre_ ? role_ == Role::follower && !leader_ && !votes_.empty() : role_ == Role::candidate;
  const Term asked_term = term_ + (pre_ ? 1 : 0);
  if (asked && reply.pre == pre_ && reply.term == asked_term) count_vote(region, now);
}

void Raft::on(const std::string& region, const AppendEntries& append, Time now) {
  const bool stale = append.term < term_;
  if (stale && options_.planted != PlantedBug::accept_stale_frames) {
    return send(region, AppendReply{.term = term_, .accepted = false, .index = 0});
  }
  if (role_ == Role::leader && append.term == term_) return;  // impossible with one vote each
  become_follower(append.term, region, now);
  heard_commit_ = std::max(heard_commit_, append.commit);
  AppendReply reply{.term = term_, .accepted = false, .index = 0};
  if (append.previous_index > last_index()) {
    reply.index = last_index() + 1;
  } else if (contradicts_ledger(append)) {
    output_.contradicted_by = region;
    return;
  } else if (term_at(append.previous_index) != append.previous_term) {
    // Back over the whole disagreeing term at once.
    Index index = append.previous_index;
    while (index > commit_ + 1 && term_at(index - 1) == term_at(append.previous_index)) --index;
    reply.index = index;
  } else {
    reply.accepted = true;
    reply.index = merge(append);
    set_commit(std::min(append.commit, reply.index));
    // The leader has on disk what it sends: where two are a majority, this one need not hear from
    // it again, which saves every round of two or three regions a round trip.
    const bool newest_term = !append.entries.empty() && term_at(reply.index) == term_;
    if (newest_term && may_commit({region, options_.self})) set_commit(reply.index);
  }
  send(region, reply);
}

bool Raft::contradicts_ledger(const AppendEntries& append) const {
  Index index = append.previous_index;
  if (index <= commit_ && term_at(index) != append.previous_term) return true;
  for (const LogEntry& entry : append.entries) {
    if (++index > commit_) return false;
    if (term_at(index) != entry.term) return true;
  }
  return false;
}

// Returns up to where the log is the leader's.
Index Raft::merge(const AppendEntries& append) {
  Index index = append.previous_index;
  for (const LogEntry& entry : append.entries) {
    ++index;
    if (index <= last_index()) {
      if (term_at(index) == entry.term) continue;
      truncate_from(index);
    }
    add(entry);
  }
  return index;
}

void Raft::on(const std::string& region, const AppendReply& reply, Time now) {
  if (reply.term > term_) return become_follower(reply.term, std::nullopt, now);
  if (role_ != Role::leader || reply.term < term_) return;
  Peer& peer = peers_.at(region);
  peer.awaiting = false;
  if (!reply.accepted) {
    peer.next = std::clamp<Index>(reply.index, 1, std::max<Index>(peer.next, 2) - 1);
    return send_entries(region, peer, now);
  }
  if (reply.index > last_index()) return;  // of a log that is not ours: a peer's bug or malice
  peer.match = std::max(peer.match, reply.index);
  peer.next = std::max(peer.next, peer.match + 1);
  const Index before = commit_;
  advance_commit(now);
  const bool behind = peer.next <= last_index() || peer.told < commit_;
  if (commit_ == before && behind) send_entries(region, peer, now);
}

// ---- The log ----

void Raft::propose(const CommitRecord& record, Time now) {
  assert(leads());
  append({.term = term_, .body = record}, now);
}

void Raft::propose(const Membership& membership, Time now) {
  assert(leads() && membership_settled());
  append({.term = term_, .body = membership}, now);
}

void Raft::append(LogEntry entry, Time now) {
  add(std::move(entry));
  advance_commit(now);
  send_entries_to_all(now);
}

void Raft::add(LogEntry entry) {
  log_.push(std::move(entry));
  note_membership(last_index());
  output_.save = true;
}

void Raft::truncate_from(Index index) {
  assert(index > commit_);
  log_.truncate_from(index);
  while (!memberships_.empty() && memberships_.back().index >= index) memberships_.pop_back();
}

bool Raft::caught_up(const std::string& region) const {
  const auto peer = peers_.find(region);
  return peer != peers_.end() && peer->second.match >= commit_ && commit_ > 0;
}

// Only entries of the leader's own term are counted (section 5.4.2 of the paper); the earlier ones
// come with them.
void Raft::advance_commit(Time now) {
  Index reached = commit_;
  for (Index index = last_index(); index > commit_ && term_at(index) == term_; --index) {
    std::set<std::string> have{options_.self};
    for (const auto& [region, peer] : peers_) {
      if (peer.match >= index) have.insert(region);
    }
    if (!may_commit(have)) continue;
    reached = index;
    break;
  }
  if (reached == commit_) return;
  set_commit(reached);
  heard_commit_ = std::max(heard_commit_, reached);
  const bool removed = membership_settled() && membership().find(options_.self) == nullptr;
  send_entries_to_all(now);
  if (removed) become_follower(term_, std::nullopt, now);
}

void Raft::set_commit(Index index) {
  commit_ = std::max(commit_, index);
}

// ---- Sending ----

void Raft::send(const std::string& region, decltype(RaftMessage::body) body) {
  output_.messages.emplace_back(region, RaftMessage{options_.incarnation, std::move(body)});
}

void Raft::send_entries(const std::string& region, Peer& peer, Time now) {
  const Index first = peer.next;
  // One message with entries at a time; a heartbeat repeats what was not answered.
  const bool repeat = !peer.awaiting || now >= peer.sent_at + options_.heartbeat;
  const std::size_t count =
      repeat && first <= last_index()
          ? std::min<std::size_t>(kEntriesPerMessage, last_index() - first + 1)
          : 0;
  send(region, AppendEntries{.term = term_,
                             .previous_index = first - 1,
                             .previous_term = term_at(first - 1),
                             .entries = log_.slice(first, count),
                             .commit = commit_});
  peer.told = std::min(commit_, first - 1 + count);
  peer.awaiting = peer.awaiting || count > 0;
  peer.sent_at = now;
}

void Raft::send_entries_to_all(Time now) {
  for (auto& [region, peer] : peers_) send_entries(region, peer, now);
}

}  // namespace causeway::diloco
