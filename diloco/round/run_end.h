// How a run ends: the leader waits until every region that can be waited for holds the last
// version, and says so. And when it must end before that: training diverges everywhere, or what
// regions need is on no disk any more.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "diloco/region/region.h"
#include "diloco/round/catch_up.h"
#include "diloco/round/leader.h"

namespace causeway::diloco {

class RunEnd {
 public:
  // All must outlive this.
  RunEnd(Region& region, const Leader& leader, CatchUp& catch_up)
      : region_(region), leader_(leader), catch_up_(catch_up) {}

  // To be called first of all.
  void start(Time now);
  // Something moved: whoever waits goes on waiting.
  void note_progress(Time now) { progress_at_ = now; }
  // The history has another record, or one was replaced.
  void add_record(Time now);
  void on_finished(const std::string& peer) { said_finished_.insert(peer); }  // the run is over
  // To a peer that comes back meanwhile.
  void tell(const std::string& peer);

  // Payloads of a round that no living region can supply, which keep too many of them from going
  // on: for the leader, to take them out of the round again. A region that is away had time to come
  // back with them.
  struct Lost {
    Round round = 0;
    std::set<inter::BlobId> payloads;
    bool operator==(const Lost&) const = default;
  };
  std::optional<Lost> lost(Time now);

  // Who does not hold the last version yet, as far as this region knows, and is waited for.
  std::set<std::string> unfinished() const;

  // Ends this region if it is time.
  void check(Time now);
  // When to look again at the latest.
  std::array<std::optional<Time>, 4> deadlines() const;

 private:
  void note_finished(Time now);
  Time longest_round(const std::set<std::string>& waiting) const;
  void count_barren();
  void check_barren(Time now);
  void wait_for_others(Time now);
  void end_barren();
  void check_stuck(Time now);
  void tell_all(bool linked);
  void check_as_leader(Time now);
  void note_left_behind(const std::string& region);
  void check_as_follower(Time now);
  void end_well();

  bool worker_done() const;
  bool is_done(const std::string& peer) const;
  Time linger() const;
  bool may_go_on() const;
  std::optional<Time> end_deadline() const;
  std::optional<Time> leader_deadline() const;
  bool region_is_stuck() const;
  bool run_is_stuck() const;
  std::optional<Time> stuck_deadline() const;
  std::size_t contributions_wanted() const;
  std::map<std::string, Status> living() const;
  bool is_wrong(const Applied& applied) const;
  std::optional<Lost> find_lost() const;
  std::optional<Time> lost_deadline() const;

  Region& region_;
  const Leader& leader_;
  CatchUp& catch_up_;

  Time progress_at_{0};  // a region that is not done yet last moved
  std::set<std::string> said_finished_;
  std::optional<Time> over_at_;       // the last round was seen to be committed
  std::optional<Time> finished_at_;   // the leader said that the run is over
  bool told_linked_ = false;          // by the leader: those with a link to it
  Round barren_ = 0;                  // rounds in a row, up to the newest, that listed nothing
  Round barren_before_ = 0;           // of these, before this start: if they had ended the run
  std::optional<Time> met_at_;        // after such a start: most regions are there since
  bool met_others_ = false;           // for long enough: they take part
  std::optional<Time> barren_until_;  // if there were too many: when the run ends
  std::optional<Time> stuck_since_;   // no region has a snapshot that the run agreed on
  std::optional<Lost> lost_;          // as last looked at
  Time lost_since_{0};
};

}  // namespace causeway::diloco
