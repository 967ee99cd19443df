#include "apps/run/report/thinned_rounds.h"

#include <utility>

namespace causeway::run {
namespace {

LoggedRound in_place_of(const LoggedRound& before, LoggedRound by) {
  if (!by.val_loss) by.val_loss = before.val_loss;
  return by;
}

}  // namespace

void ThinnedRounds::add(LoggedRound round) {
  if (!kept_.empty() && round.round <= kept_.back().round) return;
  const bool newest_stays = added_ <= 1 || (added_ - 1) % stride_ == 0;
  ++added_;
  if (!newest_stays) {
    kept_.back() = in_place_of(kept_.back(), std::move(round));
    return;
  }
  kept_.push_back(std::move(round));
  if (kept_.size() > kKeptMax) halve();
}

// Of an odd number: the first and the last stay.
void ThinnedRounds::halve() {
  std::size_t size = 1;
  for (std::size_t i = 2; i < kept_.size(); i += 2)
    kept_[size++] = in_place_of(kept_[i - 1], std::move(kept_[i]));
  kept_.resize(size);
  stride_ *= 2;
}

std::vector<LoggedRound> ThinnedRounds::take() {
  return std::exchange(kept_, {});
}

}  // namespace causeway::run
