// Chance as a pure function of a key. Drawing by key, not from a running generator, makes a
// decision depend on what it is about (seed, link, connection, byte offset) and not on how many
// others the operating system's timing let through before it: that is what makes a seed repeat.
#pragma once

#include <cstdint>
#include <string_view>

namespace causeway::wan_sim {

std::uint64_t mix(std::uint64_t a, std::uint64_t b);  // two keys into one
std::uint64_t key_of(std::string_view text);

double uniform(std::uint64_t key);      // in (0, 1)
double normal(std::uint64_t key);       // N(0, 1)
double half_normal(std::uint64_t key);  // |N(0, 1)|
double exponential(std::uint64_t key);  // mean 1

}  // namespace causeway::wan_sim
