// What the leader of the run does, in whichever region that is: it proposes the record of each
// round and the changes of the membership.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "diloco/region/region.h"
#include "diloco/round/beginning.h"
#include "diloco/round/decider.h"
#include "diloco/round/member_changes.h"
#include "diloco/round/shard_vote.h"

namespace causeway::diloco {

class Leader {
 public:
  Leader(Region& region, const Beginning& beginning)
      : region_(region), beginning_(beginning), members_(region, beginning) {}

  // This region leads as far as the last call of lead() saw.
  bool leads() const { return decider_.has_value(); }
  const std::optional<Decider>& decider() const { return decider_; }

  // Proposes what there is to propose.
  void lead(Time now);

  // Proposes the record that takes these payloads out of its round again.
  void withdraw(Round round, const std::set<inter::BlobId>& lost, Time now);
  // The records were replaced from some round on: nothing that was decided since counts.
  void begin_anew() {
    decider_.reset();
    vote_.reset();
    proposed_.reset();
  }

  // Of a sharded round, once it is decided what its record will list; none: nothing is to be
  // summed.
  const Draft* draft() const { return vote_ ? &vote_->draft() : nullptr; }
  std::uint64_t drafts_told() const { return drafts_told_; }  // so far, changed ones too
  void tell(const std::string& peer);                         // that came up: the draft
  // When somebody is asked for a sum in place of another one.
  std::optional<Time> vote_deadline() const;
  std::string waiting_for(Time now) const;

  // What it hears as leader; of no effect otherwise.
  void hear(const std::string& region, const ShardSums& sums, Time now);
  void note_progress(const std::string& region, Time now);  // more bytes arrived there
  void note_link(const std::string& peer);                  // it is up, or down
  void set_applied(const std::string& peer, const std::optional<Applied>& applied);
  void add(const Contribution& contribution, const std::string& holder, std::uint64_t bytes,
           Time now);
  // A peer's word of it: whoever contributed what was rejected while out of reach is told again.
  void hear(const Contribution& contribution, const std::string& peer, std::uint64_t bytes,
            Time now);
  void open_next(const CommitRecord& committed, Time now);
  // A member's, or this region's own operator's.
  void ask(const ChangeMember& change, const std::string& by) { members_.ask(change, by); }

 private:
  void start(Time now);
  void feed(Time now);
  bool may_contribute(const std::string& peer) const;
  void step_down();
  void decide(Time now);
  void propose(CommitRecord record, Time now);
  void begin_vote(CommitRecord record, Time now);
  void look_at_vote(Time now);
  DoubtedSummers doubted_summers(const Summers& summers);
  void give_up_vote();
  void end_vote();
  void tell_draft();
  void tell_what_is_listed(const std::string& peer);
  Decider::Steps steps() const;
  void tell_diverged(const Contribution& contribution);

  std::optional<Membership> next_membership(Time now);

  Region& region_;
  const Beginning& beginning_;
  MemberChanges members_;
  std::optional<Decider> decider_;
  std::optional<ShardVote> vote_;
  std::uint64_t drafts_told_ = 0;
  std::map<std::string, Round> ignored_;  // whose sums led nowhere: until when they do not count
  std::map<std::string, Round> late_;  // whose sums kept one waiting: until when they count as late
  std::optional<Round> proposed_;      // not committed yet
};

}  // namespace causeway::diloco
