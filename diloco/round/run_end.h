// How a run ends: the leader waits until every region that can be waited for holds the last
// version, and says so. And when it must end before that: training diverges everywhere
// (barren_rounds.h), or what regions need is on no disk any more (standstill.h).
#pragma once

#include <array>
#include <optional>
#include <set>
#include <string>

#include "diloco/region/region.h"
#include "diloco/round/barren_rounds.h"
#include "diloco/round/catch_up.h"
#include "diloco/round/leader.h"
#include "diloco/round/standstill.h"

namespace causeway::diloco {

class RunEnd {
 public:
  // All must outlive this.
  RunEnd(Region& region, const Leader& leader, CatchUp& catch_up);

  // To be called first of all.
  void start(Time now);
  // Something moved: whoever waits goes on waiting.
  void note_progress(Time now);
  // The history has another record, or one was replaced.
  void add_record(Time now);
  void on_finished(const std::string& peer) { said_finished_.insert(peer); }  // the run is over
  // To a peer that comes back meanwhile.
  void tell(const std::string& peer);

  // As Standstill.
  std::optional<Standstill::Lost> lost(Time now) { return standstill_.lost(now); }

  // Who does not hold the last version yet, as far as this region knows, and is waited for.
  std::set<std::string> unfinished() const;
  // How long regions that cannot be reached are waited for.
  Time linger() const;

  // Ends this region if it is time.
  void check(Time now);
  // When to look again at the latest.
  std::array<std::optional<Time>, 4> deadlines() const;

 private:
  void note_finished(Time now);
  Time longest_round(const std::set<std::string>& waiting) const;
  Round count_barren() const;
  void check_barren(Time now);
  void end_barren();
  void tell_all(bool linked);
  void check_as_leader(Time now);
  void note_left_behind(const std::string& region);
  void check_as_follower(Time now);
  void end_well();

  bool worker_done() const;
  bool is_done(const std::string& peer) const;
  bool may_go_on() const;
  std::optional<Time> end_deadline() const;
  std::optional<Time> leader_deadline() const;
  static constexpr Time kGoodbye = std::chrono::seconds{10};  // for others to hear of the end

  Region& region_;
  const Leader& leader_;
  CatchUp& catch_up_;

  Time progress_at_{0};  // a region that is not done yet last moved
  std::set<std::string> said_finished_;
  std::optional<Time> over_at_;      // the last round was seen to be committed
  std::optional<Time> finished_at_;  // the leader said that the run is over
  bool told_linked_ = false;         // by the leader: those with a link to it
  BarrenRounds barren_{kGoodbye};
  Standstill standstill_;
};

}  // namespace causeway::diloco
