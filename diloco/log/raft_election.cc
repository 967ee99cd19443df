// Raft's roles: who stands for election, who votes for whom, and when a leader steps down.
#include <algorithm>
#include <utility>

#include "diloco/log/raft.h"

namespace causeway::diloco {
namespace {

constexpr Term kTermStep = Term{1} << 16U;
constexpr Term kCandidatesStep = 64;           // less, so that the others can follow
constexpr Term kLeadersStep = 64 * kTermStep;  // more, so that it gets above whoever is raised
constexpr int kRenewal = 16;                   // election timeouts
constexpr int kBarren = 8;                     // election timeouts

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
  if (leader && leader != leader_) progress_at_ = now;
  role_ = Role::follower;
  leader_ = std::move(leader);
  if (leader_) leader_heard_at_ = now;
  votes_.clear();
  arm_election(now);
}

void Raft::stand(Role candidacy, Time now) {
  const bool pre = candidacy == Role::pre_candidate;
  const bool asked_before = !pre && role_ == Role::pre_candidate;
  if (const Term latest = latest_said(kCandidatesStep); !asked_before && latest > term_) {
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
  if (!electorate_.may_elect(votes_)) return;
  if (role_ == Role::pre_candidate) return stand(Role::candidate, now);
  become_leader(now);
}

void Raft::become_leader(Time now) {
  role_ = Role::leader;
  leader_ = options_.self;
  votes_.clear();
  for (auto& [region, peer] : peers_) {
    peer.next = log_.last() + 1;
    peer.match = 0;
    peer.awaiting = false;
    peer.heard_at = now;
  }
  own_first_ = log_.last() + 1;
  append({.term = term_, .body = {}}, now);
}

// ---- What others say of terms ----

// An honest region's term is hardly ever further away, and reached in a few steps if it is.
Term Raft::towards(Term said) const {
  if (plants(options_.planted, PlantedBug::believe_terms)) return said;
  return std::min(said, term_ + kTermStep);
}

Term Raft::latest_said(Term step) const {
  Term latest = term_;
  for (const auto& [region, peer] : peers_) latest = std::max(latest, peer.said);
  return plants(options_.planted, PlantedBug::believe_terms) ? latest
                                                             : std::min(latest, term_ + step);
}

// Enough that were heard lately are in this leader's term.
bool Raft::has_followers(Time now) const {
  std::set<std::string> followers{options_.self};
  for (const auto& [region, peer] : peers_) {
    const bool follows = peer.said <= term_ && now < peer.heard_at + 2 * options_.election;
    if (follows) followers.insert(region);
  }
  return electorate_.may_elect(followers);
}

// A leader that cannot reach enough others may have been replaced: it stops before it misleads.
void Raft::check_quorum(Time now) {
  if (!has_followers(now)) become_follower(latest_said(kTermStep), std::nullopt, now);
}

// Somebody is in a later term. If others follow this leader all the same, its word alone does not
// depose it; to take it in, the leader has itself elected above it. Who does not lead goes there
// when it next stands for election.
void Raft::give_way_or_renew(Time now) {
  if (role_ != Role::leader) return;
  const bool believes = plants(options_.planted, PlantedBug::believe_terms);
  if (believes || !has_followers(now)) {
    return become_follower(latest_said(kTermStep), std::nullopt, now);
  }
  if (now < renew_at_) return;
  renew_at_ = now + kRenewal * options_.election;
  term_ = latest_said(kLeadersStep);
  leader_heard_at_ = now;  // nobody gets this region's vote meanwhile
  stand(Role::candidate, now);
}

// Whether a candidate may raise the term here now. By chance, so that a member that raises one
// region's term as often as it may does not keep it out of the others' reach for ever.
bool Raft::may_ask(const std::string& region, Time now) {
  if (leader_ == region) return true;  // it renews itself
  Time& not_before = may_ask_at_[region];
  if (now < not_before) return false;
  std::uniform_int_distribution<Time::rep> pause(0, 4 * options_.election.count());
  not_before = now + Time{pause(random_)};
  return true;
}

// It has been followed for long, and nothing of its term was committed, nor anything before it: it
// does not lead, whatever it says. The others find the same.
bool Raft::is_barren(const std::string& region, Time now) {
  if (now < shunned_until_ && shunned_ == region) return true;
  const bool fruitful =
      now < progress_at_ + kBarren * options_.election || log_.term_at(commit_) == term_;
  if (leader_ != region || fruitful) return false;
  shunned_ = region;
  shunned_until_ = progress_at_ = now + kBarren * options_.election;
  leader_.reset();
  leader_heard_at_.reset();
  return true;
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
    if (!may_ask(region, now)) return send(region, reply);
    const Term reached = leader_ == region ? request.term : towards(request.term);
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
