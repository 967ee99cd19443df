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

}  // namespace causeway::diloco
