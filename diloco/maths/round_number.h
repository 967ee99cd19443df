// Rounds are counted from 0 over the whole run.
#pragma once

#include <cstdint>

namespace causeway::diloco {

// Round t takes the anchor from version t to version t + 1. Version 0 is the initial weights.
using Round = std::uint64_t;

}  // namespace causeway::diloco
