// Which contributions a round lists: the decision itself, a pure state machine. One fixed region's
// coordinator holds one of these.
//
// A round commits at once when every attached region has contributed and enough regions hold each
// payload. Otherwise a grace period runs from the moment that `contributions_min` contributions are
// known; when it is over the round commits with what is usable, and the regions that are not listed
// are detached: nobody waits for them until they stand at the current round again.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diloco/messages.h"
#include "diloco/protocol_options.h"

namespace causeway::diloco {

// How long to wait for the last regions: mean lateness + 4 deviations of past rounds, as TCP does
// for its retransmission timer (algorithms.md 7.5, rule 1), between the two limits.
class Grace {
 public:
  Grace(Time min, Time max);
  Time length() const;
  void add(Time lateness);

 private:
  Time min_, max_;
  bool measured_ = false;
  double mean_us_ = 0, deviation_us_ = 0;
};

class Decider {
 public:
  // `last`: the newest record, or null at version 0, when every region is attached.
  Decider(const ProtocolOptions& options, const CommitRecord* last);

  void set_up(const std::string& region, bool up);
  void set_applied(const std::string& region, const std::optional<Applied>& applied);
  // `holder` has `received_bytes` of the contribution's payload. Ignored unless it is for the open
  // round.
  void add(const Contribution& contribution, const std::string& holder,
           std::uint64_t received_bytes, Time now);

  struct Verdict {
    std::optional<CommitRecord> record;
    Digest state{};                     // agreed state of the open round's base version
    std::vector<std::string> diverged;  // regions newly found to have another state
  };
  Verdict decide(Time now);
  // Opens the round after `committed`.
  void open_next(const CommitRecord& committed);

  std::optional<Time> deadline() const;
  // Who is waited for, for what, and how far it got; empty if the round can commit.
  std::string waiting_for(Time now) const;

 private:
  struct Candidate {
    Contribution contribution;
    std::map<std::string, std::uint64_t> received_bytes;  // by holder
  };

  std::size_t holders(const Candidate& candidate) const;
  bool obtainable(const Candidate& candidate, std::size_t holders_required) const;
  bool usable(const std::string& region) const;
  bool past_deadline(Time now) const;
  std::size_t holders_required(Time now) const;
  void refresh(Time now);
  Digest agreed_state() const;
  std::vector<std::string> remove_diverged(const Digest& agreed);
  CommitRecord make_record(const Digest& agreed) const;
  void learn_lateness();

  ProtocolOptions options_;
  Grace grace_;
  std::set<std::string> up_;
  std::map<std::string, Applied> applied_;
  std::set<std::string> attached_;  // waited for

  // Of the open round.
  Round round_ = 0;
  std::map<std::string, Candidate> candidates_;
  std::map<std::string, Digest> diverged_;
  std::set<std::string> usable_;
  std::optional<Time> quorum_at_;  // when contributions_min were known: the grace period starts
  Time last_usable_at_{0};
  std::optional<Time> progress_at_;  // bytes of a payload that is not usable yet arrived somewhere
};

}  // namespace causeway::diloco
