// Raft's roles: who stands for election, who votes for whom, and when a leader steps down.
#include <algorithm>
#include <utility>

#include "diloco/log/raft.h"

namespace causeway::diloco {
namespace {

// Whether a log that ends so has all that this one may have committed.
bool is_up_to_date(Index last_index, Term last_term, const RaftLog& log) {
  const Term own_term = log.term_at(log.last());
  return last_term != own_term ? last_term > own_term : last_index >= log.last();
}

}  // namespace

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
    peer.next = log_.last() + 1;
    peer.match = 0;
    peer.asked = 0;
    peer.heard_at = now;
  }
  own_first_ = log_.last() + 1;
  propose({}, now);
}

// ---- What others say of terms ----

// A leader without enough others that were heard lately and are in its term may have been replaced:
// it stops before it misleads.
void Raft::check_quorum(Time now) {
  std::set<std::string> followers{options_.self};
  for (const auto& [region, peer] : peers_) {
    const bool heard = now < peer.heard_at + 2 * options_.election;
    if (heard && !claims_.is_later(region, term_)) followers.insert(region);
  }
  if (electorate_.may_decide(followers)) return;
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
  const bool log_suffices = is_up_to_date(request.last_index, request.last_term, log_);
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
