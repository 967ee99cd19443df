#include "diloco/log/raft.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace causeway::diloco {
namespace {

// That the sender of a message is in, if it says so.
std::optional<Term> term_of(const RaftMessage& message) {
  if (const auto* request = std::get_if<VoteRequest>(&message.body))
    return request->term - (request->pre && request->term > 0 ? 1 : 0);
  const auto* reply = std::get_if<VoteReply>(&message.body);
  if (reply != nullptr && reply->pre && reply->granted) return std::nullopt;
  return std::visit([](const auto& body) { return body.term; }, message.body);
}

}  // namespace

Raft::Raft(RaftOptions options, RaftState state)
    : options_(std::move(options)),
      term_(state.term),
      vote_(std::move(state.vote)),
      log_(std::move(state.log), state.first, state.earlier),
      electorate_(options_.self, options_.incarnation, options_.planted),
      random_(options_.seed),
      claims_(options_.election, options_.planted),
      commit_(state.committed),
      handed_out_(state.committed) {
  assert(commit_ <= log_.last());
  electorate_.set_committed(commit_);
  for (Index index = 1; index <= log_.last(); ++index) electorate_.note(index, log_.at(index));
}

Raft::Output Raft::take() {
  Output output = std::exchange(output_, {});
  output.committed = log_.slice(handed_out_ + 1, commit_ - handed_out_);
  handed_out_ = commit_;
  return output;
}

// ---- Events ----

void Raft::on_peer_up(const std::string& region, const std::string& incarnation, Time now) {
  followed_until_ = Time{0};
  electorate_.connect(region, incarnation);
  claims_.connect(region);
  peers_[region] = {
      .incarnation = incarnation, .progress = LogProgress(log_.last()), .heard_at = now};
  if (role_ == Role::leader) {
    send_entries(region, peers_[region], now);
  } else if (!leader_is_alive(now) && membership().voters() > 0) {
    // Whoever comes may make the quorum that was missing.
    std::uniform_int_distribution<Time::rep> soon(0, options_.election.count() / 8);
    election_at_ = std::min(election_at_, now + Time{soon(random_)});
  }
}

void Raft::on_peer_down(const std::string& region, Time now) {
  followed_until_ = Time{0};
  electorate_.disconnect(region);
  claims_.disconnect(region);
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
    const bool alone = membership().voters() == 1 && electorate_.votes(options_.self);
    if (alone) return stand(Role::pre_candidate, now);
    arm_election(now);
  }
  if (now < election_at_) return;
  if (!electorate_.may_stand()) return arm_election(now);
  const bool at_once = plants(options_.planted, PlantedBug::no_pre_vote);
  stand(at_once ? Role::candidate : Role::pre_candidate, now);
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

Time Raft::reunion_max(const std::set<std::string>& regions) const {
  const bool raised = std::ranges::any_of(regions, [this](const std::string& region) {
    return peers_.contains(region) && claims_.is_later(region, term_);
  });
  return raised ? claims_.renewal_max() : Time{0};
}

bool Raft::on_message(const std::string& region, const RaftMessage& message, Time now) {
  const auto peer = peers_.find(region);
  if (peer == peers_.end() || peer->second.incarnation != message.incarnation) return true;
  peer->second.heard_at = now;
  if (const auto said = term_of(message)) claims_.note(region, *said);
  if (claims_.is_later(region, term_)) followed_until_ = Time{0};
  std::visit([&](const auto& body) { on(region, body, now); }, message.body);
  return !std::exchange(contradicted_, false);
}

void Raft::on(const std::string& region, const AppendEntries& append, Time now) {
  const bool stale = append.term < term_;
  // Who was given the vote may lead next.
  const bool led = leader_is_alive(now) && (leader_ ? *leader_ : vote_) != region;
  const bool fruitful = log_.term_at(commit_) == term_;
  const bool barren = !led && claims_.is_barren(region, leader_ == region, fruitful, now);
  if (barren && leader_ == region) {
    leader_.reset();
    leader_heard_at_.reset();
  }
  const bool elsewhere = led || barren;
  if ((stale || elsewhere) && !plants(options_.planted, PlantedBug::accept_stale_frames)) {
    if (append.term > term_) give_way_or_renew(now);
    return send(region, AppendReply{.term = term_, .accepted = false, .index = 0});
  }
  if (log_.contradicts(append.previous_index, append.previous_term, append.entries, commit_)) {
    contradicted_ = true;
    return;
  }
  if (const Term reached = claims_.towards(append.term, term_); reached < append.term) {
    become_follower(reached, std::nullopt, now);
    return send(region, AppendReply{.term = term_, .accepted = false, .index = 0});
  }
  if (role_ == Role::leader && append.term == term_) return;  // impossible with one vote each
  become_follower(append.term, region, now);
  heard_commit_ = std::max(heard_commit_, append.commit);
  send(region, take_in(region, append, now));
}

AppendReply Raft::take_in(const std::string& leader, const AppendEntries& append, Time now) {
  AppendReply reply{.term = term_, .accepted = false, .index = 0};
  if (append.previous_index > log_.last()) {
    reply.index = log_.last() + 1;
  } else if (log_.term_at(append.previous_index) != append.previous_term) {
    // Back over the whole disagreeing term at once.
    reply.index = log_.first_of_term(append.previous_index, commit_);
  } else {
    reply.accepted = true;
    reply.index = merge(append);
    set_commit(std::min(append.commit, reply.index), now);
    // The leader has on disk what it sends: where two are a majority, this one need not hear from
    // it again, which saves every round of two or three regions a round trip.
    const bool newest_term = !append.entries.empty() && log_.term_at(reply.index) == term_;
    if (newest_term && electorate_.may_decide({leader, options_.self}))
      set_commit(reply.index, now);
  }
  return reply;
}

// Returns up to where the log is the leader's.
Index Raft::merge(const AppendEntries& append) {
  Index index = append.previous_index;
  for (const LogEntry& entry : append.entries) {
    ++index;
    if (index <= log_.last()) {
      if (log_.term_at(index) == entry.term) continue;
      assert(index > commit_);
      log_.truncate_from(index);
      electorate_.truncate_from(index);
    }
    add(entry);
  }
  return index;
}

void Raft::on(const std::string& region, const AppendReply& reply, Time now) {
  if (reply.term > term_) return give_way_or_renew(now);
  if (role_ != Role::leader || reply.term < term_) return;
  Peer& peer = peers_.at(region);
  LogProgress& progress = peer.progress;
  if (!reply.accepted) {
    if (progress.step_back(reply.index)) send_entries(region, peer, now);
    return;
  }
  if (reply.index > log_.last()) return;  // of a log that is not ours: a peer's bug or malice
  progress.accept(reply.index, now);
  const Index before = commit_;
  advance_commit(now);
  const bool lacks = progress.lacks(log_.last(), commit_);
  if (commit_ == before && lacks && progress.is_answered()) send_entries(region, peer, now);
}

// ---- The log ----

void Raft::propose(decltype(LogEntry::body) body, Time now) {
  assert(role_ == Role::leader);
  assert(electorate_.settled() || !std::holds_alternative<Membership>(body));
  add({.term = term_, .body = std::move(body)});
  advance_commit(now);
  send_entries_to_all(now);
}

void Raft::add(LogEntry entry) {
  log_.push(std::move(entry));
  electorate_.note(log_.last(), log_.at(log_.last()));
  followed_until_ = Time{0};  // the members may have changed
  output_.save = true;
}

bool Raft::caught_up(const std::string& region) const {
  const auto peer = peers_.find(region);
  return peer != peers_.end() && peer->second.progress.match() >= commit_ && commit_ > 0;
}

// Only entries of the leader's own term are counted (section 5.4.2 of the paper); the earlier ones
// come with them.
void Raft::advance_commit(Time now) {
  Index reached = commit_;
  for (Index index = log_.last(); index > commit_ && log_.term_at(index) == term_; --index) {
    const auto has_it = [this, index](const std::string& region) {
      return region == options_.self || peers_.at(region).progress.match() >= index;
    };
    if (!electorate_.may_decide(has_it)) continue;
    reached = index;
    break;
  }
  if (reached == commit_) return;
  set_commit(reached, now);
  heard_commit_ = std::max(heard_commit_, reached);
  const bool removed = electorate_.settled() && membership().find(options_.self) == nullptr;
  send_entries_to_all(now);
  if (removed) become_follower(term_, std::nullopt, now);
}

void Raft::set_commit(Index index, Time now) {
  if (index > commit_) claims_.note_commit(now);
  commit_ = std::max(commit_, index);
  electorate_.set_committed(commit_);
}

// ---- Sending ----

void Raft::send(const std::string& region, decltype(RaftMessage::body) body) {
  output_.messages.emplace_back(region, RaftMessage{options_.incarnation, std::move(body)});
}

void Raft::send_entries(const std::string& region, Peer& peer, Time now) {
  const Index first = peer.progress.next();
  const std::size_t count = peer.progress.is_due(now) ? log_.count_for_message(first) : 0;
  send(region, AppendEntries{.term = term_,
                             .previous_index = first - 1,
                             .previous_term = log_.term_at(first - 1),
                             .entries = log_.slice(first, count),
                             .commit = commit_});
  peer.progress.note_sent(count, commit_, now, options_.heartbeat);
  peer.sent_at = now;
}

void Raft::send_entries_to_all(Time now) {
  for (auto& [region, peer] : peers_) send_entries(region, peer, now);
}

// ---- Roles: who stands for election, who votes for whom, and when a leader steps down ----

bool Raft::leader_is_alive(Time now) const {
  if (plants(options_.planted, PlantedBug::no_pre_vote)) return false;
  if (role_ == Role::leader) return true;  // check_quorum ends it otherwise
  return leader_heard_at_ && now < *leader_heard_at_ + options_.election;
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
  if (leader && leader != leader_) claims_.note_new_leader(now);
  role_ = Role::follower;
  leader_ = std::move(leader);
  if (leader_) leader_heard_at_ = now;
  votes_.clear();
  arm_election(now);
}

void Raft::stand(Role candidacy, Time now) {
  const bool pre = candidacy == Role::pre_candidate;
  const bool asked_before = !pre && role_ == Role::pre_candidate;
  const Term latest = claims_.towards_latest(term_, TermClaims::Step::candidate);
  if (!asked_before && latest > term_) {
    term_ = latest;
    vote_.clear();
    output_.save = true;
  }
  role_ = candidacy;
  votes_.clear();
  leader_.reset();
  if (!pre) {
    ++term_;
    vote_ = options_.self;
    output_.save = true;
  }
  arm_election(now);
  for (const auto& [region, peer] : peers_) {
    if (!electorate_.votes(region)) continue;
    send(region, VoteRequest{.term = term_ + (pre ? 1 : 0),
                             .pre = pre,
                             .last_index = log_.last(),
                             .last_term = log_.term_at(log_.last())});
  }
  count_vote(options_.self, now);
}

void Raft::count_vote(const std::string& region, Time now) {
  votes_.insert(region);
  if (!electorate_.may_decide(votes_)) return;
  if (role_ == Role::pre_candidate) return stand(Role::candidate, now);
  role_ = Role::leader;
  leader_ = options_.self;
  votes_.clear();
  for (auto& [name, peer] : peers_) {
    peer.progress.begin_anew(log_.last());
    peer.heard_at = now;
  }
  own_first_ = log_.last() + 1;
  propose({}, now);
}

// ---- What others say of terms ----

// A leader without enough others that were heard lately and are in its term may have been replaced:
// it stops before it misleads.
void Raft::check_quorum(Time now) {
  if (now < followed_until_) return;
  Time oldest_word = now;
  const auto follows = [&](const std::string& region) {
    if (region == options_.self) return true;
    const Time heard_at = peers_.at(region).heard_at;
    if (now >= heard_at + 2 * options_.election || claims_.is_later(region, term_)) return false;
    oldest_word = std::min(oldest_word, heard_at);
    return true;
  };
  if (electorate_.may_decide(follows)) {
    followed_until_ = oldest_word + 2 * options_.election;
    return;
  }
  become_follower(claims_.towards_latest(term_, TermClaims::Step::word), std::nullopt, now);
}

// Somebody is in a later term. If others follow this leader all the same, its word alone does not
// depose it; to take it in, the leader has itself elected above it. Who does not lead goes there
// when it next stands for election.
void Raft::give_way_or_renew(Time now) {
  if (role_ != Role::leader) return;
  if (plants(options_.planted, PlantedBug::believe_terms)) {
    return become_follower(claims_.towards_latest(term_, TermClaims::Step::word), std::nullopt,
                           now);
  }
  check_quorum(now);
  if (role_ != Role::leader || !claims_.may_renew(now)) return;
  term_ = claims_.towards_latest(term_, TermClaims::Step::leader);
  leader_heard_at_ = now;  // nobody gets this region's vote meanwhile
  stand(Role::candidate, now);
}

void Raft::on(const std::string& region, const VoteRequest& request, Time now) {
  const bool disturbs = leader_is_alive(now) && leader_ != region;
  const bool log_suffices = log_.is_covered_by(request.last_index, request.last_term);
  VoteReply reply{.term = term_, .pre = request.pre, .granted = false};
  if (request.pre) {
    reply.granted = request.term > term_ && log_suffices && !disturbs;
    if (reply.granted) reply.term = request.term;
    return send(region, reply);
  }
  if (request.term < term_ || disturbs) return send(region, reply);
  if (request.term > term_) {
    const bool renews = leader_ == region;  // it leads already
    if (!renews && !claims_.may_raise(region, now, random_)) return send(region, reply);
    const auto step = renews ? TermClaims::Step::leader : TermClaims::Step::word;
    const Term reached = claims_.towards(request.term, term_, step);
    become_follower(reached, std::nullopt, now);
  }
  reply.term = term_;
  const bool free = vote_.empty() || vote_ == region;
  const bool stands = role_ == Role::candidate || role_ == Role::leader;
  if (request.term == term_ && free && log_suffices && !stands) {
    reply.granted = true;
    if (vote_.empty()) output_.save = true;
    vote_ = region;
    arm_election(now);
  }
  send(region, reply);
}

void Raft::on(const std::string& region, const VoteReply& reply, Time now) {
  if (!reply.granted) return;
  const bool pre = role_ == Role::pre_candidate;
  const Term asked_term = term_ + (pre ? 1 : 0);
  if (!pre && role_ != Role::candidate) return;
  if (reply.pre == pre && reply.term == asked_term) count_vote(region, now);
}

}  // namespace causeway::diloco
