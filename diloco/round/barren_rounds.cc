#include "diloco/round/barren_rounds.h"

#include <algorithm>

namespace causeway::diloco {

bool BarrenRounds::start(Round count) {
  count_ = count;
  if (!too_many()) return false;
  before_ = count_;
  return true;
}

void BarrenRounds::add_record(Round count, Time now) {
  count_ = count;
  before_ = std::min(before_, count_);
  const bool enough = count_ - before_ >= kMax;
  if (!enough) ends_at_.reset();
  if (enough && !ends_at_) ends_at_ = now + goodbye_;
}

void BarrenRounds::look_for_others(bool there, Time patience, Time now) {
  if (there) {
    ends_at_.reset();
    if (!met_at_) met_at_ = now;
    met_others_ = now - *met_at_ > goodbye_;  // none that are about to end
    return;
  }
  met_at_.reset();
  if (!ends_at_) ends_at_ = now + patience;
}

}  // namespace causeway::diloco
