#include "diloco/round/spool_room.h"

#include <algorithm>
#include <set>

namespace causeway::diloco {

bool SpoolRoom::never_fits(const inter::BlobId& blob) const {
  return region_.options.spool_bytes > 0 && blob.size_bytes > region_.options.spool_bytes;
}

std::map<inter::BlobId, Fetcher::Want> SpoolRoom::fitting(const std::vector<Need>& needs) const {
  std::map<inter::BlobId, Fetcher::Want> wanted;
  std::uint64_t room = region_.spool.room_bytes();
  for (const Need& need : needs) {
    const auto [want, added] = wanted.try_emplace(need.blob);
    if (!added) continue;
    const std::uint64_t bytes =
        region_.spool.begun().contains(need.blob) ? 0 : need.blob.size_bytes;
    const std::uint64_t spare = need.urgent || bytes == 0 ? 0 : kept_free_bytes();
    const bool fits = bytes <= room && room - bytes >= spare;
    if (fits) {
      want->second = {.source = need.source, .rank = wanted.size(), .first = need.first};
    } else {
      wanted.erase(want);
    }
    if (fits || need.keeps_its_room()) room -= std::min(bytes, room);
  }
  return wanted;
}

// For what the worker makes next.
std::uint64_t SpoolRoom::kept_free_bytes() const {
  std::uint64_t bytes = 0;
  if (region_.spool.snapshot() && !region_.spool.offered())
    bytes += region_.spool.snapshot()->blob.size_bytes;
  if (region_.contributions.newest_own() &&
      region_.contributions.own(region_.history.version()) == nullptr)
    bytes += region_.contributions.newest_own()->payload.size_bytes;
  return bytes;
}

bool SpoolRoom::make_for(const Needs& needs) {
  std::set<inter::BlobId> urgent;
  for (const Need& need : needs.blobs) {
    if (need.urgent && !region_.spool.begun().contains(need.blob)) urgent.insert(need.blob);
  }
  std::uint64_t bytes = 0;
  for (const inter::BlobId& blob : urgent) bytes += blob.size_bytes;
  if (!lacks(bytes)) return false;
  make(bytes, needs);
  give_up_for_smaller(needs.blobs);
  return true;
}

// In this order: what has begun and is not needed, older snapshots, what a region contributed
// beyond its share, payloads of rounds, and what has begun and can wait.
void SpoolRoom::make(std::uint64_t bytes, const Needs& needs) {
  give_up_begun(bytes, [&](const inter::BlobId& blob) {
    return std::ranges::find(needs.blobs, blob, &Need::blob) == needs.blobs.end();
  });
  if (lacks(bytes)) region_.spool.release_older({});
  give_up_beyond_shares(bytes);
  give_up_rounds(bytes, needs);
  give_up_begun(bytes, [&](const inter::BlobId& blob) {
    return std::ranges::none_of(needs.blobs,
                                [&](const Need& need) { return need.urgent && need.blob == blob; });
  });
}

// First those that the worker will not apply, then those that it applies last. One whose state is
// made again lets go of none: others may be doubted with it, and count on what is here.
void SpoolRoom::give_up_rounds(std::uint64_t bytes, const Needs& needs) {
  if (!region_.worker.attached() || region_.worker.heals()) return;
  const Round behind = std::min(needs.from, needs.later);
  for (Round round = region_.spool.released(); round < behind && lacks(bytes); ++round) {
    if (needs.leap || !is_of_use(round)) give_up_listed(round);
  }
  for (Round round = region_.history.version(); round > needs.later && lacks(bytes);) {
    if (held_elsewhere(--round)) give_up_listed(round);
  }
}

void SpoolRoom::give_up_begun(std::uint64_t bytes,
                              const std::function<bool(const inter::BlobId&)>& can_go) {
  const std::set<inter::BlobId> begun = region_.spool.begun();
  for (const inter::BlobId& blob : begun) {
    if (!lacks(bytes)) return;
    if (can_go(blob)) region_.spool.give_up(blob);
  }
}

// They were pushed here unasked.
void SpoolRoom::give_up_beyond_shares(std::uint64_t bytes) {
  std::set<inter::BlobId> beyond, within;
  for (const auto& [key, contribution] : region_.contributions.open()) {
    const std::vector<inter::BlobId> blobs = blobs_of(contribution);
    (region_.exceeds_share(contribution) ? beyond : within).insert(blobs.begin(), blobs.end());
  }
  for (const inter::BlobId& blob : beyond) {
    if (!lacks(bytes)) return;
    const bool counted_on = within.contains(blob) || region_.spool.kept(blob);
    if (region_.spool.holds(blob) && !counted_on) region_.spool.give_up(blob);
  }
}

// Honest payloads are about as large. What began because there was room, and is of a region that
// asks for more than twice as much as another one whose payload finds none now, is to come later.
void SpoolRoom::give_up_for_smaller(const std::vector<Need>& needs) {
  const auto is_open = [](const Need& need) { return need.urgent && need.claimed_bytes > 0; };
  const auto least = std::ranges::find_if(needs, [&](const Need& need) {
    return is_open(need) && !region_.spool.begun().contains(need.blob);
  });
  if (least == needs.end()) return;
  const std::uint64_t most_bytes = 2 * least->claimed_bytes;
  std::uint64_t bytes = 0;
  for (const Need& need : needs) {
    const bool begun = region_.spool.begun().contains(need.blob);
    if (need.urgent && !begun && need.claimed_bytes <= most_bytes) bytes += need.blob.size_bytes;
  }
  give_up_begun(bytes, [&](const inter::BlobId& blob) {
    return std::ranges::all_of(needs, [&](const Need& need) {
      return need.blob != blob || (is_open(need) && need.claimed_bytes > most_bytes);
    });
  });
}

void SpoolRoom::give_up_listed(Round round) {
  for (const inter::BlobId& payload : applied_blobs(region_.history.record(round))) {
    const bool here = region_.spool.holds(payload) || region_.spool.begun().contains(payload);
    // What an open contribution names too is counted on.
    if (here && !region_.contributions.names(payload) && region_.spool.listed_in(payload) == round)
      region_.spool.give_up(payload);
  }
}

// To somebody who may come to need this region's payloads of it.
bool SpoolRoom::is_of_use(Round round) const {
  const auto past_it = std::ranges::count_if(region_.peers.up(), [&](const std::string& name) {
    const Status* status = region_.peers.status(name);
    const bool has_snapshot =
        status != nullptr && status->snapshot && status->snapshot->version > round;
    return is_past(name, round) && (has_snapshot || region_.peers.has_payloads(name, round));
  });
  return !are_enough(past_it);
}

// Only whoever has applied them keeps them for sure: others may be about to let go of them too, and
// count on us.
bool SpoolRoom::held_elsewhere(Round round) const {
  return are_enough(std::ranges::count_if(region_.peers.up(), [&](const std::string& name) {
    return is_past(name, round) && region_.peers.has_payloads(name, round);
  }));
}

bool SpoolRoom::is_past(const std::string& peer, Round round) const {
  const Status* status = region_.peers.status(peer);
  return status != nullptr && status->applied && status->applied->version > round &&
         region_.agreement.members().trains(peer);
}

// Everybody else, or two: more than the leader counts on when it lists a payload.
bool SpoolRoom::are_enough(std::ptrdiff_t others) const {
  const auto regions = static_cast<std::ptrdiff_t>(region_.agreement.members().region_count());
  return others >= 2 || others + 1 >= regions;
}

}  // namespace causeway::diloco
