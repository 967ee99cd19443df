#include "apps/run/replay/applying_round.h"

namespace causeway::run {

intra::OuterRound applying_round(const Config& config, const diloco::Layout& layout) {
  return {intra::OuterRound::Place{},
          config.codec,
          config.outer,
          {.variant = diloco::OverlapOptions::Variant::synchronous,
           .fragments = config.overlap.fragments,
           .order = config.overlap.order,
           .mixing = config.overlap.mixing},
          layout};
}

}  // namespace causeway::run
