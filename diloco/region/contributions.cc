#include "diloco/region/contributions.h"

#include <algorithm>
#include <chrono>
#include <tuple>

namespace causeway::diloco {
namespace {

constexpr std::uint32_t kPartMax = 16;

// A region whose log was damaged may do an old round again, with new samples: what counts is how
// far the samples go, not the round.
auto samples_used(const Contribution& own) {
  return std::tuple(own.data_cursor, own.round, own.part);
}

void add_blobs(const Contribution& contribution, std::vector<inter::BlobId>& blobs) {
  for (const inter::BlobId& blob : blobs_of(contribution)) blobs.push_back(blob);
}

void drop_payload(Contribution& contribution) {
  contribution.payload = {};
  contribution.shards.clear();
}

}  // namespace

void Contributions::restore(const Contribution& own, bool kept) {
  if (!newest_own_ || samples_used(*newest_own_) <= samples_used(own)) newest_own_ = own;
  if (kept && is_open(own)) put(own);
}

const Contribution* Contributions::find(const ContributionKey& key) const {
  const auto found = open_.find(key);
  return found == open_.end() ? nullptr : &found->second;
}

bool Contributions::names(const inter::BlobId& blob) const {
  return std::ranges::any_of(open_, [&blob](const auto& entry) {
    const Contribution& one = entry.second;
    return one.payload == blob || std::ranges::count(one.shards, blob) > 0;
  });
}

bool Contributions::is_open(const Contribution& contribution) const {
  if (history_.newest() == nullptr) return true;
  if (history_.is_withdrawn(key_of(contribution))) return false;
  const bool planted = plants(options_.planted, PlantedBug::list_expired);
  if (contribution.round < history_.newest()->expired_before && !planted) return false;
  // What a region that lost its disk may do again is not older than this.
  const Round from = history_.last((2 * options_.staleness_max + 2) * options_.pace.fragments);
  for (Round round = from; round < history_.version(); ++round) {
    for (const Participant& listed : history_.record(round).participants) {
      if (key_of(listed) == key_of(contribution)) return false;
      if (share_samples(listed, contribution) && !planted) return false;
    }
  }
  return true;
}

std::uint64_t Contributions::data_cursor() const {
  return std::max(newest_own_ ? newest_own_->data_cursor : 0, history_.data_cursor());
}

// ---- Own ones ----

Contribution Contributions::add_own(Contribution made, Time now) {
  const bool newest = !newest_own_ || samples_used(*newest_own_) <= samples_used(made);
  stamp(made, now);
  if (newest) newest_own_ = made;
  if (is_open(made)) put(made);
  save_own();
  return made;
}

// With what passed since the contribution before, if that was to the round before.
void Contributions::stamp(Contribution& contribution, Time now) {
  using Seconds = std::chrono::duration<double>;
  if (contribution.part > 0) return pending_.reset();
  if (pending_ && pending_->took && pending_->round + 1 == contribution.round) {
    const double passed_s = Seconds(now - pending_->since).count();
    contribution.exchange_s = Seconds(*pending_->took).count();
    contribution.overhead_s = std::max(0.0, passed_s - contribution.compute_s);
  }
  pending_ = {.round = contribution.round, .since = now};
}

std::optional<Round> Contributions::awaited() const {
  const bool under_way = pending_ && !pending_->took && pending_->round < history_.version();
  return under_way ? std::optional(pending_->round) : std::nullopt;
}

std::vector<inter::BlobId> Contributions::void_after(Round round) {
  bool own = false;
  std::vector<inter::BlobId> payloads;
  std::erase_if(open_, [&](const auto& entry) {
    if (entry.first.round <= round) return false;
    own = own || entry.first.region == options_.self;
    add_blobs(entry.second, payloads);
    peers_hold_.erase(entry.first);
    return true;
  });
  if (newest_own_ && newest_own_->round > round) drop_payload(*newest_own_);
  if (own) save_own();
  return payloads;
}

void Contributions::reject_own(Round round) {
  const auto own = open_.find({options_.self, round, 0});
  // What is on disk for its samples' sake must not come back as an offer.
  if (newest_own_ && newest_own_->payload == own->second.payload) drop_payload(*newest_own_);
  peers_hold_.erase(own->first);  // what is made in its place, nobody holds
  open_.erase(own);
  save_own();
}

void Contributions::save_own() {
  SaveContributions save;
  bool newest_open = false;
  for (const auto& [key, contribution] : open_) {
    if (key.region != options_.self) continue;
    save.contributions.push_back(contribution);
    newest_open = newest_open || (newest_own_ && key == key_of(*newest_own_));
  }
  if (newest_own_ && !newest_open) save.contributions.push_back(*newest_own_);
  out_.push(std::move(save));
}

// ---- Others' ----

bool Contributions::judge(const std::string& peer, const Contribution& contribution,
                          const Membership& membership) {
  // Of a payload without bytes everybody would have all.
  const bool has_payload = contribution.sits_out || contribution.payload.size_bytes > 0;
  const bool ours = contribution.run_id == history_.run_id() && contribution.part <= kPartMax;
  // Before a joiner has the log any name would do, so everybody speaks for itself alone.
  const bool member = membership.members.empty() ? contribution.region == peer
                                                 : membership.trains(contribution.region);
  if (!ours || !member || !has_payload) {
    const char* what = !has_payload ? "has no payload"
                       : !ours      ? "is of another run, or of too many parts"
                               : "is not its own, or of a region that does not belong to the run";
    out_.note(Note::Severity::warning,
              peer + " announced a contribution that " + what + "; it was ignored");
    return false;
  }
  if (!is_open(contribution)) return false;
  if (contribution.round >= history_.version()) return true;
  return contribution.state == history_.record(contribution.round).state;
}

// A region contributes to round t when t rounds are committed, however far this one lags: what it
// made beyond the staleness cap before t is expired by records still to come. So a region has only
// so many contributions at once, whatever rounds it names. Only for a region's own word: nobody
// else's may put its contributions aside.
std::optional<std::vector<inter::BlobId>> Contributions::displaced_by(const ContributionKey& key) {
  const Round cap = options_.staleness_max * options_.pace.fragments;
  const auto expired_by = [cap](const ContributionKey& one, const ContributionKey& newer) {
    return one.region == newer.region && one.round < newer.round && newer.round - one.round > cap;
  };
  const bool old = std::ranges::any_of(peers_hold_, [&](const auto& known) {
    return expired_by(key, known.first) && known.second.contains(key.region);
  });
  if (old) return std::nullopt;
  std::vector<inter::BlobId> displaced;
  std::erase_if(open_, [&](const auto& known) {
    if (!expired_by(known.first, key)) return false;
    add_blobs(known.second, displaced);
    peers_hold_.erase(known.first);
    return true;
  });
  return displaced;
}

bool Contributions::told(const ContributionKey& key) const {
  if (key.region == options_.self) return true;
  const auto found = peers_hold_.find(key);
  return found != peers_hold_.end() && found->second.contains(key.region);
}

std::map<std::string, std::uint64_t> Contributions::held(const ContributionKey& key) const {
  const auto found = peers_hold_.find(key);
  return found == peers_hold_.end() ? std::map<std::string, std::uint64_t>{} : found->second;
}

void Contributions::forget_word_of(const std::string& peer) {
  for (auto& [key, held] : peers_hold_) held.erase(peer);
}

std::vector<inter::BlobId> Contributions::settle(const CommitRecord& record) {
  std::vector<inter::BlobId> settled;
  bool own_settled = false;
  std::erase_if(open_, [&](const auto& entry) {
    const auto& [key, contribution] = entry;
    const bool strays = key.round == record.round && contribution.state != record.state;
    if (is_open(contribution) && !strays) return false;
    add_blobs(contribution, settled);
    own_settled = own_settled || key.region == options_.self;
    peers_hold_.erase(key);
    return true;
  });
  if (own_settled) save_own();
  return settled;
}

}  // namespace causeway::diloco
