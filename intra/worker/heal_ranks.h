// Ranks that train together must hold the same state. Those that were in one group do, but for a
// step or an outer round that broke off in the middle on some of them; one that was restarted or
// was left out for a while does not.
#pragma once

#include <filesystem>

#include "diloco/maths/layout.h"
#include "intra/collective/collective.h"
#include "intra/step/training_state.h"

namespace causeway::intra {

enum class Healing {
  same,           // all ranks hold the same state
  newest,         // they do now: the newest whole one, which went through the region's directory
  none_is_whole,  // every rank's is half changed; the one on disk is the newest there is
};

// All ranks of `group` call it, and get the same answer. The newest state is the one of the highest
// version and of the most inner steps since. Throws what saving and loading throw, on all ranks.
Healing heal_ranks(Collective& group, const std::filesystem::path& region_directory,
                   const diloco::Layout& layout, TrainingState& state,
                   std::uint32_t states_kept = kStatesKept);

}  // namespace causeway::intra
