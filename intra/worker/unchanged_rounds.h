// Contributions in a row in which no parameter changed. A trainer whose steps end elsewhere than in
// the parameters would go on so to the end of the run.
#pragma once

#include <cstdint>
#include <utility>

#include "diloco/log/record.h"

namespace causeway::intra {

class UnchangedRounds {
 public:
  // True, once: none changed in two rounds of each of so many fragments, of which each round has
  // one. A learning rate that begins at 0 may leave the first as it was.
  bool add(const diloco::Contribution& made, std::uint32_t fragments) {
    if (made.sits_out || made.steps == 0) return false;
    rounds_ = made.delta_norm == 0 ? rounds_ + 1 : 0;
    return rounds_ == 2 * fragments && !std::exchange(told_, true);
  }

 private:
  std::uint32_t rounds_ = 0;
  bool told_ = false;
};

}  // namespace causeway::intra
