// A fast checksum against torn and damaged files. Internal to inter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway::inter {

// XXH3. For accidents, not attackers. Never 0.
std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace causeway::inter
