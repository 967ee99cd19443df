// From which state the regions start the open round: which one is agreed, and who has another.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diloco/log/membership.h"
#include "diloco/log/messages.h"
#include "diloco/round/candidates.h"

namespace causeway::diloco {

class StartStates {
 public:
  // No longer of the round before.
  void open(Round round);

  // What the region's worker holds, when known. True: it stands at the open round, and not with
  // another state than most.
  bool set_applied(const std::string& region, const std::optional<Applied>& applied);
  bool is_applied_by(const std::string& region) const;  // the round before

  // By region, of those that stand at this round.
  std::map<std::string, Digest> known(const Candidates& candidates) const;
  // The only region of which that is known; none if there are several, or there is none.
  std::optional<std::string> only_known(const Candidates& candidates) const;
  // The state that more than half of the regions start from, of those that stand at this round;
  // after a tie, of all.
  std::optional<Digest> agreed(const Candidates& candidates, const Membership& membership) const;
  // The contributions of this round that start from another one, which are rejected from here on;
  // all if none is agreed.
  std::vector<Contribution> reject_others(const Candidates& candidates,
                                          const std::optional<Digest>& agreed);

  bool rejects(const Contribution& contribution) const {
    return rejected_.contains(contribution.payload);
  }
  // No state had most: whoever replays first is not right for that alone.
  bool tied() const { return tied_; }

 private:
  Round round_ = 0;
  std::map<std::string, Applied> applied_;
  std::map<std::string, Digest> diverged_;  // regions with another state than most
  std::set<inter::BlobId> rejected_;        // payloads made from such a state
  bool tied_ = false;
};

}  // namespace causeway::diloco
