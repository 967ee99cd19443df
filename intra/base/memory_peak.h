// How much memory this process needed.
#pragma once

#include <cstdint>

namespace causeway::intra {

// At most, so far.
std::uint64_t memory_peak_bytes();

}  // namespace causeway::intra
