#include "diloco/log/withdraw.h"

namespace causeway::diloco {

// A leader may have decided on a round before it knew that an earlier one was taken back: the
// number of revisions tells.
Effect effect_of(const CommitRecord& record, Round version, std::uint32_t revision) {
  if (record.revision != revision) return Effect::none;
  if (record.withdrawn.empty()) return record.round == version ? Effect::next : Effect::none;
  return record.round < version ? Effect::replaces : Effect::none;
}

CommitRecord withdraw(const CommitRecord& record, const std::set<ContributionKey>& lost,
                      std::uint32_t revision) {
  CommitRecord left = record;
  left.participants.clear();
  left.withdrawn.clear();
  left.sums.clear();
  left.revision = revision;
  double all = 0, kept = 0;
  for (const Participant& one : record.participants) {
    const bool gone = lost.contains(key_of(one));
    (gone ? left.withdrawn : left.participants).push_back(one);
    all += one.weight;
    kept += gone ? 0 : one.weight;
  }
  for (Participant& one : left.participants) {
    if (kept > 0) one.weight = static_cast<float>(one.weight * (all / kept));
  }
  return left;
}

}  // namespace causeway::diloco
