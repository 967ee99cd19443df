// What a record would have been if one region had contributed nothing to its round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "diloco/log/record.h"

namespace causeway::run {

// The contributions that are left get the weights that the protocol would have given them
// (diloco/pacing/weights.h): tokens, lateness and the liveness that `before`, the record of the
// round before, says; null: there is none. A region whose weight the cap on norms lowered keeps
// that factor if three or more are left, because records do not have norms. Momentum is left out
// if the rest weighs too little for it. Nobody may be left: then nothing moves.
// `fragments`: sync.fragments. Of a sharded round there is no such record.
diloco::CommitRecord without_region(diloco::CommitRecord record, const diloco::CommitRecord* before,
                                    const std::string& region, std::uint32_t fragments);

}  // namespace causeway::run
