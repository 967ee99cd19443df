// RoundProtocol: the contributions to open rounds, the own one and the others'.
#include <algorithm>
#include <cassert>
#include <utility>

#include "diloco/round/round_protocol.h"

namespace causeway::diloco {
namespace {

constexpr std::uint32_t kPartMax = 16;
// A peer that passes on another's contribution may know of this many records more.
constexpr Round kRecordsAhead = 2;

}  // namespace

// It may still be listed: it is neither listed nor expired, and none of its samples was counted.
bool RoundProtocol::is_open(const Contribution& contribution) const {
  if (records_.empty()) return true;
  const bool plants = options_.planted == PlantedBug::list_expired;
  if (contribution.round < records_.back().expired_before && !plants) return false;
  // What a region that lost its disk may do again is not older than this.
  const Round from =
      version() - std::min(version(), (2 * options_.staleness_max + 2) * options_.pace.fragments);
  for (Round round = from; round < version(); ++round) {
    for (const Participant& listed : records_[round].participants) {
      if (key_of(listed) == key_of(contribution)) return false;
      if (share_samples(listed, contribution) && !plants) return false;
    }
  }
  return true;
}

// Whether a contribution that `peer` told of is one to keep in mind.
bool RoundProtocol::judge(const std::string& peer, const Contribution& contribution) {
  const Membership& membership = raft_.membership();
  const bool ours = contribution.run_id == run_id_ && contribution.part <= kPartMax;
  // Before a joiner has the log any name would do, so everybody speaks for itself alone.
  const bool member = membership.members.empty()
                          ? contribution.region == peer
                          : membership.regions().contains(contribution.region);
  if (!ours || !member) {
    note(Note::Severity::warning,
         peer + " announced a contribution that is not its own; it was ignored");
    return false;
  }
  if (!is_open(contribution)) return false;
  if (contribution.round >= version()) return true;
  return contribution.state == records_[contribution.round].state;
}

// A region contributes to round t when t rounds are committed, however far this one lags: what it
// made beyond the staleness cap before t is expired by records still to come. So a region has only
// so many contributions at once, whatever rounds it names. False: this one is such an old one. Only
// for a region's own word: nobody else's may put its contributions aside.
bool RoundProtocol::displaces_older(const Contribution& contribution) {
  const Round cap = options_.staleness_max * options_.pace.fragments;
  const auto expired_by = [cap](const ContributionKey& one, const ContributionKey& newer) {
    return one.region == newer.region && one.round < newer.round && newer.round - one.round > cap;
  };
  const ContributionKey key = key_of(contribution);
  const bool old = std::ranges::any_of(peers_hold_, [&](const auto& known) {
    return expired_by(key, known.first) && known.second.contains(key.region);
  });
  if (old) return false;
  std::vector<inter::BlobId> displaced;
  std::erase_if(contributions_, [&](const auto& known) {
    if (!expired_by(known.first, key)) return false;
    if (!known.second.sits_out) displaced.push_back(known.second.payload);
    peers_hold_.erase(known.first);
    return true;
  });
  for (const inter::BlobId& blob : displaced) {
    if (blobs_.contains(blob)) {
      unclaimed_[blob] = version();  // of use if one of those records lists it
    } else {
      discard(blob);
    }
  }
  return true;
}

void RoundProtocol::on_message(const std::string& peer, const Holding& holding) {
  const Contribution& contribution = holding.contribution;
  const ContributionKey key = key_of(contribution);
  if (run_id_.empty() || !judge(peer, contribution)) return;
  const auto known = contributions_.find(key);
  const bool own = key.region == options_.self;
  if (own && known == contributions_.end()) return;  // of a lost disk
  if (known == contributions_.end()) {
    const bool credible =
        peer == key.region ? displaces_older(contribution) : key.round <= version() + kRecordsAhead;
    if (!credible) return;
  }
  if (known != contributions_.end() && known->second.payload != contribution.payload) {
    if (own || peer != key.region) return;
    // A record still to come may list the older payload.
    unclaimed_[known->second.payload] = version();
    peers_hold_.erase(key);
  }
  contributions_[key] = contribution;
  unclaimed_.erase(contribution.payload);
  peers_hold_[key][peer] = holding.received_bytes;
  if (decider_) {
    decider_->add(contribution, peer, holding.received_bytes, now_);
    // It was out of reach when it was told.
    if (decider_->rejects(contribution) && peer == key.region) {
      send(peer, Diverged{key.round, contribution.payload, decider_->tied()});
    }
  }
  if (contribution.sits_out || blobs_.contains(contribution.payload)) {
    // Its contributor's word may come again after a lost link, and so may ours.
    report_holding(contribution, contribution.payload.size_bytes);
  } else if (holding.pushing && !options_.witness) {
    // Under way: refresh_wants would ask for it at once.
    auto wanted = needed();
    wanted[contribution.payload] = {.source = peer, .under_way = true};
    fetcher_.set_wanted(wanted, now_);
  }
}

std::uint64_t RoundProtocol::held_bytes(const Contribution& contribution) const {
  return blobs_.contains(contribution.payload) ? contribution.payload.size_bytes
                                               : fetcher_.received_bytes(contribution.payload);
}

// A witness holds nothing, but passes on what it heard: it may be the only one that knows.
void RoundProtocol::report_holding(const Contribution& contribution, std::uint64_t received_bytes) {
  if (contribution.round > version() || options_.witness) return;
  if (decider_) {
    decider_->add(contribution, options_.self, received_bytes, now_);
  } else if (raft_.leader()) {
    send(*raft_.leader(), Holding{contribution, received_bytes, false});
  }
}

void RoundProtocol::on(const BlobArrived& event) {
  blobs_.insert(event.blob);
  received_bytes_ += fetcher_.on_progress(event.blob, event.blob.size_bytes, now_);
  progress_reported_at_.erase(event.blob);
  if (target_ && target_->blob == event.blob) {
    // From here on it is this region's own, which can serve others in turn.
    const std::optional<Snapshot> old = std::exchange(snapshot_, std::exchange(target_, {}));
    actions_.push_back(SaveSnapshot{*snapshot_});
    if (old) discard(old->blob);
  }
  for (const auto& [key, contribution] : contributions_) {
    if (contribution.payload == event.blob) report_holding(contribution, event.blob.size_bytes);
  }
  if (!referenced(event.blob)) unclaimed_[event.blob] = version();
}

void RoundProtocol::on(const BlobProgress& event) {
  const std::uint64_t growth_bytes = fetcher_.on_progress(event.blob, event.received_bytes, now_);
  if (growth_bytes == 0) return;
  received_bytes_ += growth_bytes;
  end_progress_at_ = now_;
  const auto reported = progress_reported_at_.find(event.blob);
  if (reported != progress_reported_at_.end() &&
      now_ < reported->second + kProgressReportInterval) {
    return;
  }
  progress_reported_at_[event.blob] = now_;
  for (const auto& [key, contribution] : contributions_) {
    if (contribution.payload == event.blob) report_holding(contribution, event.received_bytes);
  }
}

void RoundProtocol::on(const WorkerContributed& event) {
  Contribution contribution = event.contribution;
  const ContributionKey key = key_of(contribution);
  assert(key.region == options_.self && contribution.run_id == run_id_);
  if (!contribution.sits_out) blobs_.insert(contribution.payload);
  if (worker_ && key.part > 0) worker_->continued = false;
  // The newest word on what the worker holds.
  if (applied_ && applied_->version == key.round) applied_->state = contribution.state;
  const auto order = [](const Contribution& one) { return std::pair(one.round, one.part); };
  const bool newest = !newest_own_ || order(*newest_own_) <= order(contribution);
  if (contributions_.contains(key)) {
    if (contributions_.at(key).payload != contribution.payload) discard(contribution.payload);
    return;
  }
  stamp(contribution);
  if (newest) newest_own_ = contribution;  // also if it cannot be listed: its samples were used
  if (is_open(contribution)) contributions_[key] = contribution;
  save_own();
  if (!is_open(contribution)) return discard(contribution.payload);
  unclaimed_.erase(contribution.payload);
  for (const std::string& peer : up_) {
    send(peer, Holding{contribution, contribution.payload.size_bytes, true});
    const Member* member = raft_.membership().find(peer);
    const bool stores = member == nullptr || !member->witness;
    if (stores && !contribution.sits_out) actions_.push_back(PushBlob{peer, contribution.payload});
  }
  if (decider_) report_holding(contribution, contribution.payload.size_bytes);
}

// The outcome of what this region contributed last is known, and all of it is here.
void RoundProtocol::time_outcome() {
  const bool under_way = pending_ && !pending_->took && pending_->round < version();
  if (under_way && all_held(records_[pending_->round])) pending_->took = now_ - pending_->since;
}

// With what passed since the contribution before, if that was to the round before.
void RoundProtocol::stamp(Contribution& contribution) {
  using Seconds = std::chrono::duration<double>;
  if (contribution.part > 0) return pending_.reset();
  if (pending_ && pending_->took && pending_->round + 1 == contribution.round) {
    const double passed_s = Seconds(now_ - pending_->since).count();
    contribution.exchange_s = Seconds(*pending_->took).count();
    contribution.overhead_s = std::max(0.0, passed_s - contribution.compute_s);
  }
  pending_ = {.round = contribution.round, .since = now_};
}

void RoundProtocol::save_own() {
  SaveContributions save;
  bool newest_open = false;
  for (const auto& [key, contribution] : contributions_) {
    if (key.region != options_.self) continue;
    save.contributions.push_back(contribution);
    newest_open = newest_open || (newest_own_ && key == key_of(*newest_own_));
  }
  if (newest_own_ && !newest_open) save.contributions.push_back(*newest_own_);
  actions_.push_back(std::move(save));
}

}  // namespace causeway::diloco
