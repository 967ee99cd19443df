// Whose votes count in Raft's log: the membership that is in force, which of its disks are
// connected, and how many make a majority.
//
// A region that lost its disk comes back as a new incarnation, which is its testimony that the old
// one is gone. If all voters but such lost ones agree, they elect even where they are no majority:
// each committed entry is on one of them as long as the lost ones alone were none. That is what
// lets a run of two regions go on after one disk was lost.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "diloco/log/membership.h"
#include "diloco/log/planted_bug.h"
#include "diloco/log/raft_log.h"

namespace causeway::diloco {

class Electorate {
 public:
  Electorate(std::string self, std::string incarnation, PlantedBug planted);

  // A disk that can be reached; one's own always can.
  void connect(const std::string& region, const std::string& incarnation);
  void disconnect(const std::string& region) { incarnations_.erase(region); }

  // Entry `index` of the log, if it names members. Entries come in their order.
  void note(Index index, const LogEntry& entry);
  void truncate_from(Index index);  // of the log
  void set_committed(Index index) { committed_ = index; }

  const Membership& membership() const;  // the newest in the log, committed or not
  bool settled() const;                  // it is committed
  const Membership* replaced() const;    // by the newest one; null once that is committed
  // As the incarnation that is connected.
  bool votes(const std::string& region) const { return votes(region, membership()); }
  // Whether this region may stand for election.
  bool may_stand() const;
  // A majority of the voters; or all that are left when a minority of them is lost.
  std::size_t quorum() const { return quorum(membership()); }
  // Whether these are enough to elect a leader, and to commit an entry.
  bool may_decide(const std::set<std::string>& regions) const;

 private:
  bool votes(const std::string& region, const Membership& membership) const;
  std::size_t lost_voters(const Membership& membership) const;
  std::size_t quorum(const Membership& membership) const;
  bool is_quorum(const std::set<std::string>& regions, const Membership& membership) const;

  // Where the log has them: from the newest that is committed on.
  struct MembershipAt {
    Index index = 0;
    Membership membership;
  };

  std::string self_;
  PlantedBug planted_;
  std::map<std::string, std::string> incarnations_;  // connected, oneself among them
  std::vector<MembershipAt> memberships_;
  Index committed_ = 0;
};

}  // namespace causeway::diloco
