// Whose votes count in Raft's log: the membership that is in force, which of its disks are
// connected, and how many make a majority.
//
// A region that lost its disk comes back as a new incarnation, which is its testimony that the old
// one is gone. If all voters but such lost ones agree, they elect even where they are no majority:
// each committed entry is on one of them as long as the lost ones alone were none. That is what
// lets a run of two regions go on after one disk was lost.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "diloco/log/membership.h"
#include "diloco/log/planted_bug.h"
#include "diloco/log/raft_log.h"
#include "diloco/log/record.h"

namespace causeway::diloco {

// What other regions say of Raft's term, and how far it counts. One member that lies must not stop
// the others: its word alone moves a region's term by a step at most, and not at will.
class TermClaims {
 public:
  enum class Step { candidate, word, leader };  // from the smallest to the largest

  // `election`: the election timeout.
  TermClaims(Time election, PlantedBug planted) : election_(election), planted_(planted) {}

  void connect(const std::string& region) { said_[region] = 0; }
  void disconnect(const std::string& region) { said_.erase(region); }
  // By its last word, it is in this term.
  void note(const std::string& region, Term term) { said_[region] = term; }
  bool is_later(const std::string& region, Term own) const { return said_.at(region) > own; }

  // As far as one may go from the own term towards that which somebody claims, or the latest that
  // anybody does.
  Term towards(Term said, Term own, Step step = Step::word) const;
  // As far as two say alike it goes at once: they do not lie both.
  Term towards_latest(Term own, Step step) const;

  // Whether a candidate may raise the term now. By chance, so that a member that raises one
  // region's term as often as it may does not keep it out of the others' reach for ever.
  bool may_raise(const std::string& candidate, Time now, std::mt19937_64& random);
  // Whether a leader may have itself elected again, above a later term.
  bool may_renew(Time now);
  // Until a region in a later term follows its leader again: the leader may have itself elected.
  Time renewal_max() const;

  void note_commit(Time now);
  void note_new_leader(Time now) { progress_at_ = now; }
  // Whether that region has led, or leads now, in name only: it was followed for long, and nothing
  // was committed. `fruitful`: something of its term was.
  bool is_barren(const std::string& region, bool leads, bool fruitful, Time now);

 private:
  Time election_;
  PlantedBug planted_;
  std::map<std::string, Term> said_;      // by who is connected
  std::map<std::string, Time> raise_at_;  // not before
  Time renew_at_{0};                      // not before
  Time progress_at_{0};                   // more was committed, or another leader was followed
  std::string shunned_;                   // a region that led in name only
  Time shunned_until_{0};
};

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
  // Voters whose disk is known to be gone, as they are here with another one.
  std::vector<std::string> lost() const;
  // These alone keep the others from deciding anything, for good: nobody can name their new disks.
  bool lost_for_good() const;
  // Whether the regions that `counts` names are enough to elect a leader, and to commit an entry.
  using Counts = std::function<bool(const std::string& region)>;
  bool may_decide(const Counts& counts) const;
  bool may_decide(const std::set<std::string>& regions) const;

 private:
  bool votes(const std::string& region, const Membership& membership) const;
  bool votes(const Member& member) const;
  bool is_lost(const Member& member) const;
  std::size_t lost_voters(const Membership& membership) const;
  std::size_t quorum(const Membership& membership) const;
  bool is_quorum(const Counts& counts, const Membership& membership) const;

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
