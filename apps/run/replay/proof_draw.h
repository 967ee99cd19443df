// Which contributions a check of proofs looks at.
#pragma once

#include <map>
#include <set>
#include <string>

#include "apps/run/replay/replay_source.h"
#include "diloco/log/record.h"

namespace causeway::run {

// A contribution that a record lists.
struct Listed {
  const diloco::Participant* participant = nullptr;
  diloco::Round record = 0;
};
using ListedByKey = std::map<diloco::ContributionKey, Listed>;

// 16 hex digits that nobody knew before.
std::string random_seed();

// About `sample` of these, by a lot that follows from `seed`, the ledger and the contribution; of
// each region one at least, if it can be of the newest `kept` rounds.
std::set<diloco::ContributionKey> draw_proofs(const ReplaySource& source, const ListedByKey& proven,
                                              const std::string& seed, double sample,
                                              diloco::Round kept);

}  // namespace causeway::run
