// Rank 0 alone talks with the coordinator; this tells the other ranks what it said, bulk bytes
// included.
#pragma once

#include <optional>

#include "diloco/worker/worker_session.h"
#include "intra/collective/collective.h"

namespace causeway::intra {

// Rank 0 gives the instruction, the others nothing; every rank gets it back. All ranks of `group`
// call it.
diloco::Instruction relay_instruction(Collective& group,
                                      std::optional<diloco::Instruction> instruction);

}  // namespace causeway::intra
