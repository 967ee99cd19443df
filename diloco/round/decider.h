// Which contributions a round lists: the decision itself, a pure state machine. The leader's
// coordinator holds one of these.
//
// A round commits at once when every attached region has contributed and enough regions hold each
// payload. Otherwise a grace period runs from the moment that enough contributions are known; when
// it is over the round commits with what is usable, and the regions that are not listed are
// detached: nobody waits for them until they stand at the current round again. What comes too late
// for its own round is listed in a later one that exchanges the same fragment, up to staleness_max
// of them on.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diloco/log/membership.h"
#include "diloco/log/messages.h"
#include "diloco/pacing/weights.h"
#include "diloco/region/protocol_options.h"
#include "diloco/round/candidates.h"
#include "diloco/round/grace.h"
#include "diloco/round/speeds.h"
#include "diloco/round/standings.h"
#include "diloco/round/start_states.h"

namespace causeway::diloco {

class Decider {
 public:
  // `last`: the newest record, or null at version 0, when every region is attached.
  Decider(const ProtocolOptions& options, const Membership& membership, const CommitRecord* last);

  void set_membership(const Membership& membership);
  void set_up(const std::string& region, bool up);
  void set_applied(const std::string& region, const std::optional<Applied>& applied);
  // `holder` has `received_bytes` of the contribution's payload: all of them if it has checked its
  // hash, and fewer than it said before if what it had was damaged. The caller keeps out what is
  // listed, expired, or made from another state than the one agreed in its round.
  void add(const Contribution& contribution, const std::string& holder,
           std::uint64_t received_bytes, Time now);

  struct Verdict {
    std::optional<CommitRecord> record;
    // Contributions newly found to start from another state than most regions hold; all of the
    // round's if no state has most of them.
    std::vector<Contribution> diverged;
  };
  struct Steps {
    std::uint32_t k = 0;       // nominal, of the open round
    std::uint32_t next_k = 0;  // of the round after it
    // Of all rounds since the open round's fragment was exchanged before.
    std::uint64_t since_exchange = 0;
  };
  Verdict decide(const Steps& steps, Time now);
  // As StartStates has them.
  bool tied() const { return states_.tied(); }
  bool rejects(const Contribution& contribution) const { return states_.rejects(contribution); }
  // Opens the round after `committed`.
  void open_next(const CommitRecord& committed);

  // Of the open round: whether its contributions come in shards, and who sums them.
  bool sharded() const { return sharded_; }
  const Summers& summers() const { return candidates_.summers(); }
  std::uint32_t shards_of(const Participant& one) const {  // that a record of the open round lists
    return static_cast<std::uint32_t>(candidates_.at(key_of(one)).contribution.shards.size());
  }
  // Somebody within reach still has all that a record of the open round lists.
  bool can_supply(const CommitRecord& draft) const { return candidates_.can_supply(draft, up_); }
  // What was made anew while a draft listed it is not listed in this round: nobody may make the
  // others begin again and again.
  void leave_out_changed(const CommitRecord& draft);
  // A draft was given up: what the rest of this round lists must be with two regions, one of which
  // may lie.
  void be_strict() { strict_ = true; }
  // The members may have changed since it was made.
  bool lists_enough(const CommitRecord& draft) const;
  const std::set<std::string>& up() const { return up_; }  // with this region
  Time grace() const;
  // How many regions must hold what a record lists.
  std::size_t holders_required(Time now) const;

  std::optional<Time> deadline() const;
  bool knows_speed(const std::string& region) const { return speeds_.knows(region); }
  // What the slowest region takes for so many inner steps; 0 while no speed is known.
  Time slowest(std::uint32_t steps) const { return speeds_.slowest(steps); }
  // Who is waited for, for what, and how far it got; empty if the round can commit.
  std::string waiting_for(Time now) const;

 private:
  using Candidate = Candidates::Candidate;

  bool is_fresh(const ContributionKey& key) const { return key.round == round_ && key.part == 0; }
  // Of the fragment that the open round exchanges.
  bool has_its_turn(const ContributionKey& key) const {
    return (round_ - key.round) % options_.pace.fragments == 0;
  }
  bool may_come_late() const { return !sharded_ && options_.staleness_max > 0; }
  bool sits_out(const std::string& region) const { return candidates_.sits_out(region, round_); }
  void attach(const std::string& region);
  void choose_summers();

  bool hopeless() const;
  std::vector<Contribution> remove_diverged(const std::optional<Digest>& agreed);

  bool may_list(const ContributionKey& key) const;
  std::vector<Offer> offers() const;
  CommitRecord make_record(const Digest& agreed, const std::vector<Offer>& offers,
                           const Steps& steps) const;
  bool is_next_sharded(const std::vector<Offer>& offers) const;
  void add_egress(CommitRecord& record) const;
  std::optional<RoundMeasure> measured(const std::vector<Offer>& offers, std::uint32_t k) const;
  bool may_be_named(const std::string& region) const;
  std::vector<Standing> standings(std::uint32_t next_k) const;

  void count_contributions_wanted();
  std::size_t contributors() const;  // of usable contributions
  static std::size_t region_count(const std::set<ContributionKey>& keys);
  void refresh(Time now);
  // `careful`: without what was trouble before in this round.
  std::set<ContributionKey> find_usable(Time now, bool careful) const;
  bool comes_as_the_round_does(const Contribution& contribution) const;
  void leave_out_other_cuts(std::set<ContributionKey>& usable) const;

  bool complete() const;
  bool settled(const std::string& region) const;
  bool rests_on_one_word() const;
  bool past_deadline(Time now) const;
  double longest_compute_s() const;
  std::optional<Time> latest_end() const;
  void learn_lateness();

  std::string describe(const std::string& region) const;
  std::string sitting_out() const;

  ProtocolOptions options_;
  Membership membership_;
  Grace grace_;
  std::set<std::string> up_;
  std::set<std::string> attached_;        // members that are waited for
  Standings standings_;                   // after the last record
  std::size_t contributions_min_ = 0;     // of these members, with these standings
  std::map<std::string, double> egress_;  // cost by region, in the last record
  Speeds speeds_;

  // Of the open round.
  Round round_ = 0;
  std::optional<CommitRecord> last_;  // of which only what the summers follow from is kept
  bool sharded_ = false;
  bool strict_ = false;
  std::set<std::string> left_out_;  // regions
  Candidates candidates_;
  StartStates states_;
  std::set<ContributionKey> usable_;
  std::optional<Time> quorum_at_;  // when enough were known: the grace period starts
  Time last_usable_at_{0};
  std::optional<Time> progress_at_;  // bytes of a payload that is not usable yet arrived somewhere
};

}  // namespace causeway::diloco
