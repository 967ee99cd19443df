#include "diloco/round/old_copy.h"

#include <algorithm>

#include <fmt/format.h>

namespace causeway::diloco {

OldCopy::OldCopy(Region& region) : region_(region) {
  if (region.agreement.raft().electorate().votes(region.options.self))
    began_with_ = region.history.version();
}

// A contribution is on disk before anybody hears of it. One to the round that was open may be of a
// disk that was lost before this one got its vote.
void OldCopy::check(const CommitRecord& record) {
  if (!began_with_) return;
  const auto& newest = region_.contributions.newest_own();
  const auto forgotten = std::ranges::find_if(record.participants, [&](const Participant& one) {
    return one.region == region_.options.self && one.round > *began_with_ &&
           (!newest || newest->round < one.round);
  });
  if (forgotten == record.participants.end()) return;
  region_.out.push(Note{
      Note::Severity::warning,
      fmt::format("this region contributed to round {}, and its directory, which had {} rounds at "
                  "this start, knows nothing of that: it is an older copy, or its disk went back. "
                  "The others give it what it lacks, so all is well this time. But it has also "
                  "forgotten what it promised: if too few of the others had been there, the run "
                  "could have lost rounds. Delete ledger/incarnation in a copy before its first "
                  "start (docs/checkpoints.md, \"Backups of a region's directory\")",
                  forgotten->round, *began_with_),
      "old_copy"});
  began_with_.reset();
}

}  // namespace causeway::diloco
