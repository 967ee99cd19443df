// What regions need to go on is on no disk any more: payloads, which are taken out of their round
// again, or every snapshot that the run agreed on, which ends it.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "diloco/region/region.h"
#include "diloco/round/catch_up.h"

namespace causeway::diloco {

class Standstill {
 public:
  // With regions that are away; and with one that moves, which a lie could do for ever.
  struct Patience {
    Time usual, longest;
  };
  // Both must outlive this.
  Standstill(Region& region, const CatchUp& catch_up, const Patience& patience)
      : region_(region), catch_up_(catch_up), patience_(patience) {}

  // Something moved: it is waited for longer.
  void note_progress(Time now) { progress_at_ = now; }

  // Payloads of a round that no living region can supply, which keep too many of them from going
  // on: for the leader, to take them out of the round again. A region that is away had time to come
  // back with them.
  struct Lost {
    Round round = 0;
    std::set<inter::BlobId> payloads;
    bool operator==(const Lost&) const = default;
  };
  std::optional<Lost> lost(Time now);

  // Ends this region if nothing that it needs can come from anywhere.
  void check(Time now);
  // When to look again at the latest, at either.
  std::array<std::optional<Time>, 2> deadlines() const {
    return {stuck_deadline(), lost_deadline()};
  }

 private:
  bool region_is_stuck() const;
  bool run_is_stuck() const;
  std::optional<Time> stuck_deadline() const;
  std::size_t contributions_wanted() const;
  std::map<std::string, Status> living() const;
  bool is_wrong(const Applied& applied) const;
  std::optional<Lost> find_lost() const;
  std::optional<Time> lost_deadline() const;

  Region& region_;
  const CatchUp& catch_up_;
  Patience patience_;

  Time progress_at_{0};              // a region that is not done yet last moved
  std::optional<Time> stuck_since_;  // no region has a snapshot that the run agreed on
  std::optional<Lost> lost_;         // as last looked at
  Time lost_since_{0};
};

}  // namespace causeway::diloco
