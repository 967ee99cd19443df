// Exact top-k of a chunk by magnitude.
#pragma once

#include <cstdint>
#include <span>

#include "compression/chunk.h"

namespace causeway::compression {

// The indices.size() (1 to kChunk) largest magnitudes of a finite chunk, ascending. Of equal
// magnitudes the lower index wins, zeros included, so that the result is one set whatever computes
// it.
void select_largest(ChunkView chunk, std::span<std::uint16_t> indices);

}  // namespace causeway::compression
