// A fast checksum against torn and damaged files. Internal to inter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway::inter {

// 64 bits of GMAC under a fixed key: what OpenSSL computes fastest. Accidents only, not attackers.
// Never 0.
std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace causeway::inter
