#include "diloco/round/exchange.h"

#include <cassert>

namespace causeway::diloco {
namespace {

// A peer that passes on another's contribution may know of this many records more.
constexpr Round kRecordsAhead = 2;

}  // namespace

Exchange::Exchange(Region& region, Leader& leader, CatchUp& catch_up)
    : options_(region.options),
      agreement_(region.agreement),
      history_(region.history),
      contributions_(region.contributions),
      peers_(region.peers),
      spool_(region.spool),
      worker_(region.worker),
      region_(region),
      leader_(leader),
      catch_up_(catch_up) {}

// ---- This region's own ----

void Exchange::add_own(const Contribution& made, Time now) {
  const ContributionKey key = key_of(made);
  assert(key.region == options_.self && made.run_id == history_.run_id());
  if (!made.sits_out) spool_.put(made.payload);
  if (key.part > 0) worker_.drop_more();
  worker_.correct_state(key.round, made.state);
  if (const Contribution* known = contributions_.find(key)) {
    if (known->payload != made.payload) spool_.discard(made.payload);
    return;
  }
  const Contribution stamped = contributions_.add_own(made, now);
  if (!contributions_.is_open(stamped)) return spool_.discard(stamped.payload);
  spool_.claim(stamped.payload);
  announce(stamped);
  if (leader_.leads()) report(stamped, stamped.payload.size_bytes, now);
  // Regions that did the same work made the same bytes, which do not arrive once more.
  for (const auto& [other, contribution] : contributions_.open()) {
    const bool same = other != key && contribution.payload == stamped.payload;
    if (same) report(contribution, stamped.payload.size_bytes, now);
  }
}

void Exchange::announce(const Contribution& contribution) {
  for (const std::string& peer : peers_.up()) {
    peers_.send(peer, Holding{contribution, contribution.payload.size_bytes, true});
    const auto is_witness = [this](const std::string& name) {
      const Member* member = agreement_.members().find(name);
      return member != nullptr && member->witness;
    };
    const bool stores = !is_witness(peer) && !is_witness(peers_.via(peer));
    if (stores && !contribution.sits_out) region_.out.push(PushBlob{peer, contribution.payload});
  }
}

void Exchange::reject_own(const Diverged& diverged) {
  const Contribution* own = contributions_.own(diverged.round);
  if (own == nullptr || own->payload != diverged.payload) return;
  const Applied made_from{diverged.round, own->state};
  contributions_.reject_own(diverged.round);
  spool_.leave_unclaimed(diverged.payload);  // another leader may know nothing of this and list it
  // In a tie a state that was made again before may be the right one: others have to heal. And it
  // takes a record to end this region, not the leader's word alone.
  if (worker_.healed_enough(made_from.version)) return;
  if (worker_.applied() == made_from) worker_.distrust();
}

void Exchange::time_outcome(Time now) {
  const std::optional<Round> awaited = contributions_.awaited();
  if (awaited && spool_.holds_all(history_.record(*awaited))) contributions_.outcome_is_here(now);
}

// ---- Others' ----

void Exchange::hear(const std::string& peer, const Holding& holding, Time now) {
  const ContributionKey key = key_of(holding.contribution);
  const Contribution* before = contributions_.find(key);
  const bool made_again = before != nullptr && before->payload != holding.contribution.payload;
  if (history_.run_id().empty() || !peers_.reads_the_log_as(peer, history_.revision())) return;
  if (!contributions_.judge(peer, holding.contribution, agreement_.members())) return;
  if (!is_news(peer, holding.contribution)) return;
  // What is known of another region's contribution, nobody else can change.
  const Contribution* known = peer == key.region ? nullptr : contributions_.find(key);
  const Contribution contribution = known == nullptr ? holding.contribution : *known;
  const inter::BlobId& payload = contribution.payload;
  contributions_.put(contribution);
  spool_.claim(payload);
  contributions_.set_held(key, peer, holding.received_bytes);
  leader_.hear(contribution, peer, holding.received_bytes, now);
  // Others may have heard of it sooner; their word was of something unknown. They say it again.
  if (made_again && peer == key.region && leader_.leads())
    peers_.broadcast(Holding{contribution, region_.held_bytes(payload), false});
  if (contribution.sits_out || spool_.holds(payload)) {
    // Its contributor's word may come again after a lost link, and so may ours.
    report(contribution, payload.size_bytes, now);
  } else if (holding.pushing && !options_.witness) {
    catch_up_.expect(payload, peer, now);
  }
}

// Nothing that is known better speaks against it.
bool Exchange::is_news(const std::string& peer, const Contribution& contribution) {
  const ContributionKey key = key_of(contribution);
  const Contribution* known = contributions_.find(key);
  const bool own = key.region == options_.self;
  if (known == nullptr) {
    if (own) return false;  // of a lost disk
    if (contribution.sits_out && peer != key.region && peers_.is_up(key.region)) return false;
    return peer == key.region ? displaces_older(key)
                              : key.round <= history_.version() + kRecordsAhead;
  }
  if (known->payload == contribution.payload) return true;
  if (own || peer != key.region) return false;
  // A record still to come may list the older payload.
  spool_.leave_unclaimed(known->payload);
  contributions_.forget_held(key);
  return true;
}

bool Exchange::displaces_older(const ContributionKey& key) {
  const auto displaced = contributions_.displaced_by(key);
  if (!displaced) return false;
  for (const inter::BlobId& blob : *displaced) {
    if (spool_.holds(blob)) {
      spool_.leave_unclaimed(blob);  // of use if one of those records lists it
    } else {
      spool_.discard(blob);
    }
  }
  return true;
}

void Exchange::tell(const std::string& peer) {
  for (const auto& [key, contribution] : contributions_.open()) {
    if (key.region != options_.self && agreement_.leader() != peer) continue;
    peers_.send(peer, Holding{contribution, region_.held_bytes(contribution.payload), false});
  }
}

void Exchange::tell_new_leader(Time now) {
  peers_.send(*agreement_.leader(), region_.report.status());
  for (const auto& [key, contribution] : contributions_.open()) {
    const std::uint64_t bytes = region_.held_bytes(contribution.payload);
    if (bytes > 0 || contribution.sits_out) report(contribution, bytes, now);
  }
}

// ---- Payloads and records ----

// A witness holds nothing, but passes on what it heard: it may be the only one that knows.
void Exchange::report(const Contribution& contribution, std::uint64_t received_bytes, Time now) {
  if (contribution.round > history_.version() || options_.witness) return;
  if (leader_.leads()) {
    leader_.add(contribution, options_.self, received_bytes, now);
  } else if (agreement_.leader()) {
    peers_.send(*agreement_.leader(), Holding{contribution, received_bytes, false});
  }
}

void Exchange::report_all_of(const inter::BlobId& blob, std::uint64_t received_bytes, Time now) {
  for (const auto& [key, contribution] : contributions_.open()) {
    if (contribution.payload == blob) report(contribution, received_bytes, now);
  }
}

void Exchange::on_arrived(const inter::BlobId& blob, Time now) {
  spool_.put(blob);
  region_.report.add_received(region_.fetcher.on_progress(blob, blob.size_bytes, now));
  spool_.forget_progress(blob);
  report_all_of(blob, blob.size_bytes, now);
  spool_.leave_unclaimed_if_unnamed(blob);
}

void Exchange::on_lost(const inter::BlobId& blob, Time now) {
  spool_.lose(blob);
  report_all_of(blob, 0, now);
  // The worker still has what it made for the open round: it is asked for the round again.
  const Contribution* own = contributions_.own(history_.version());
  if (own != nullptr && own->payload == blob) contributions_.reject_own(history_.version());
}

bool Exchange::on_progress(const inter::BlobId& blob, std::uint64_t received_bytes, Time now) {
  const std::uint64_t growth_bytes = region_.fetcher.on_progress(blob, received_bytes, now);
  if (growth_bytes == 0) return false;
  region_.report.add_received(growth_bytes);
  if (spool_.may_report_progress(blob, now)) report_all_of(blob, region_.held_bytes(blob), now);
  return true;
}

void Exchange::settle(const CommitRecord& record) {
  spool_.list(record);
  for (const inter::BlobId& blob : contributions_.settle(record)) spool_.discard(blob);
}

void Exchange::open_next(const CommitRecord& record, Time now) {
  leader_.open_next(record);
  for (const auto& [key, contribution] : contributions_.open()) {
    if (key.round > history_.version()) continue;
    for (const auto& [peer, bytes] : contributions_.held(key)) {
      leader_.add(contribution, peer, bytes, now);
    }
    if (contribution.sits_out || spool_.holds(contribution.payload)) {
      report(contribution, contribution.payload.size_bytes, now);
    }
  }
}

}  // namespace causeway::diloco
