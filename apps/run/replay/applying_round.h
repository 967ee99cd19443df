// Applies records to a state, as a worker does, but trains nothing and contributes nothing.
#pragma once

#include "apps/run/config/config.h"
#include "diloco/maths/layout.h"
#include "intra/outer/outer_round.h"

namespace causeway::run {

// A region of no name, which only applies records. `layout` outlives it.
intra::OuterRound applying_round(const Config& config, const diloco::Layout& layout);

}  // namespace causeway::run
