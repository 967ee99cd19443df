#pragma once

#include <cstdint>
#include <span>

#include "intra/model/model.h"

namespace causeway::intra {

// See Model::initialise. Uses exact IEEE operations only, so that every machine draws the same
// bits.
void initialise_parameters(const ModelOptions& options, const diloco::Layout& layout,
                           std::uint64_t seed, std::span<float> params);

}  // namespace causeway::intra
