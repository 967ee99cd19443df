#include "diloco/log/records.h"

#include <cassert>

namespace causeway::diloco {

const CommitRecord& Records::operator[](Round round) const {
  return at_index(index_of(round));
}

const CommitRecord& Records::at_index(Index index) const {
  return std::get<CommitRecord>(log_.at(index).body);
}

void Records::add(Index index) {
  const bool follows = !stretches_.empty() && index_of(size_ - 1) + 1 == index;
  if (!follows) stretches_.push_back({size_, index});
  ++size_;
}

void Records::rewind(Round round) {
  std::erase_if(stretches_, [round](const Stretch& stretch) { return stretch.round >= round; });
  size_ = round;
}

Index Records::index_of(Round round) const {
  assert(round < size_);
  const auto after = std::ranges::upper_bound(stretches_, round, {}, &Stretch::round);
  const Stretch& stretch = *std::prev(after);
  return stretch.index + (round - stretch.round);
}

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
