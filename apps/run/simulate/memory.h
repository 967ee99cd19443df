// Whether this host has the memory for all processes of a simulation.
#pragma once

#include <cstdint>

#include "apps/run/config/config.h"
#include "intra/base/host_memory.h"

namespace causeway::run {

// Of all of them together, at most, while regions train or while the baseline does. Of a program of
// the user's nothing is known.
std::uint64_t simulation_bytes(const Config& config, bool baseline);

// Throws ConfigError, with what is needed, what is there and what to do, if that is more than is
// free.
void check_memory(const Config& config, bool baseline, const intra::HostMemory& host);

}  // namespace causeway::run
