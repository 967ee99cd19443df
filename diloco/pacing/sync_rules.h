// When a round is decided, and what it may list: as the run is configured. The configuration file,
// the protocol and a rehearsal all carry this one struct.
#pragma once

#include <chrono>
#include <cstddef>

#include "diloco/log/record.h"
#include "diloco/maths/train.h"

namespace causeway::diloco {

// What a run of programs begins with, where regions bring different values.
enum class InitialValues {
  founder,  // the founder's: the others take them
  equal,    // nothing: whoever has others than the founder is refused
};

struct SyncRules {
  std::size_t contributions_min = 0;  // a round with fewer is not committed; 0: most regions
  // A contribution is listed at most this many turns of its fragment late: rounds, if there is one.
  Round staleness_max = 0;
  bool speed_adaptive_k = false;  // slower regions take fewer steps (DyLU)
  // How long a round waits for the last regions (docs/rounds.md).
  Time grace_min{0};
  Time grace_max{0};
  // Without a word from the leader for this long up to twice as long, another one is elected.
  Time election{std::chrono::seconds{2}};
  // The first round waits at most this long for regions whose worker has not attached.
  Time start_wait{0};
  InitialValues initial = InitialValues::founder;
};

}  // namespace causeway::diloco
