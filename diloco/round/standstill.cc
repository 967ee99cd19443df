#include "diloco/round/standstill.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

namespace causeway::diloco {

std::size_t Standstill::contributions_wanted() const {
  const Membership& members = region_.agreement.members();
  const std::size_t regions = members.region_count();
  return region_.options.contributions_min == 0
             ? members.most_of(regions)
             : std::min(region_.options.contributions_min, regions);
}

// Regions that can be reached and know the same records as this one, with what they say.
std::map<std::string, Status> Standstill::living() const {
  std::map<std::string, Status> living;
  for (const std::string& name : region_.agreement.members().regions()) {
    if (name == region_.options.self) {
      living[name] = region_.report.status();
    } else if (region_.peers.is_up(name) && region_.peers.status(name) != nullptr) {
      living[name] = *region_.peers.status(name);
    }
  }
  std::erase_if(living, [this](const auto& one) {
    return one.second.revision != region_.history.revision() ||
           one.second.version != region_.history.version();
  });
  return living;
}

// Another state than the one that was agreed on: who holds it contributes nothing.
bool Standstill::is_wrong(const Applied& applied) const {
  return applied.version < region_.history.version() &&
         region_.history.record(applied.version).state != applied.state;
}

// Where the run stands still: at the newest round that some lack payloads of, and beyond which too
// few stand to go on without them. Those that are beyond it have no snapshot to give, or nobody
// would say that it lacks anything.
std::optional<Standstill::Lost> Standstill::find_lost() const {
  if (region_.report.missing().empty() && !region_.peers.anyone_misses_payloads())
    return std::nullopt;
  const std::map<std::string, Status> regions = living();
  std::map<Round, std::size_t, std::greater<>> at;  // by the version that they hold: how many
  for (const auto& [name, status] : regions)
    if (status.applied && !is_wrong(*status.applied)) ++at[status.applied->version];
  std::size_t beyond = 0;
  for (const auto& [version, count] : at) {
    const bool at_end =
        region_.history.over() && beyond > 0;  // they finish, and have the last state
    if (beyond >= contributions_wanted() || at_end) return std::nullopt;
    std::optional<std::set<inter::BlobId>> lost;
    for (const auto& [name, status] : regions) {
      if (!status.applied || status.applied->version != version || status.missing.empty()) continue;
      const std::set<inter::BlobId> missing(status.missing.begin(), status.missing.end());
      if (!lost) lost = missing;
      std::erase_if(*lost, [&missing](const auto& payload) { return !missing.contains(payload); });
    }
    if (lost && !lost->empty()) return Lost{version, *lost};
    beyond += count;
  }
  return std::nullopt;
}

std::optional<Standstill::Lost> Standstill::lost(Time now) {
  if (plants(region_.options.planted, PlantedBug::stand_still)) return std::nullopt;
  std::optional<Lost> found = find_lost();
  if (found != lost_) lost_since_ = now;
  lost_ = std::move(found);
  return lost_ && now >= *lost_deadline() ? lost_ : std::nullopt;
}

// One that lies could go on to move for ever.
std::optional<Time> Standstill::lost_deadline() const {
  if (!lost_) return std::nullopt;
  return std::min(std::max(lost_since_, progress_at_) + patience_.usual,
                  lost_since_ + patience_.longest);
}

// Its worker's state is wrong, and nobody has one to begin anew from.
bool Standstill::region_is_stuck() const {
  return region_.worker.ready() && !region_.spool.target() && region_.worker.distrusted() &&
         !catch_up_.own_snapshot_helps() && !catch_up_.can_begin_again();
}

// Every region was heard, and too few of them stand at the open round to make it: nothing that is
// needed can come from anywhere.
bool Standstill::run_is_stuck() const {
  if (region_.history.over() || !region_.agreement.leader() || !region_is_stuck()) return false;
  std::size_t able = 0;
  for (const std::string& name : region_.agreement.members().regions()) {
    if (name == region_.options.self) continue;
    const Status* status = region_.peers.status(name);
    if (status == nullptr) return false;
    if (!region_.peers.linked().contains(name) && status->snapshot)
      return false;  // it may help once it is back
    if (region_.peers.is_up(name) && !status->missing.empty())
      return false;  // the others will go on
    able += status->applied && status->applied->version >= region_.history.version() ? 1 : 0;
  }
  return able < contributions_wanted();
}

// Time for every region to be asked again for what is missing.
std::optional<Time> Standstill::stuck_deadline() const {
  if (!stuck_since_) return std::nullopt;
  const auto regions = static_cast<Time::rep>(region_.agreement.members().region_count());
  return std::max(*stuck_since_, progress_at_) + patience_.usual + regions * Fetcher::kRetryMax;
}

void Standstill::check(Time now) {
  if (!run_is_stuck()) return stuck_since_.reset();
  if (!stuck_since_) stuck_since_ = now;
  if (now < *stuck_deadline()) return;
  region_.out.end(
      4,
      fmt::format("no region has a snapshot that the run agreed on, so version {} cannot be "
                  "reached from version {}: begin a new run from the newest snapshot that is left, "
                  "with `causeway coordinator --fork DIRECTORY`, a region's directory of this run",
                  region_.history.version(), region_.worker.applied()->version));
}

}  // namespace causeway::diloco
