// Packets as pcapng, a format that tcpdump and Wireshark read. Pure. Not by libpcap: it writes its
// older format alone, which has no comments.
//
// https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-02.html
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "wan-sim/base/impairments.h"

namespace causeway::wan_sim {

// How a file begins: whose packets follow, and how many bytes of each at most.
std::string pcapng_head(std::string_view interface, std::uint32_t snap_bytes);

struct PcapngPacket {
  std::span<const std::uint8_t> ip;  // from its IP header on
  Time at{0};                        // since 1970
  std::string_view comment{};
};
void append_pcapng(std::string& file, const PcapngPacket& packet, std::uint32_t snap_bytes);
// How much longer that makes a file.
std::size_t pcapng_bytes(const PcapngPacket& packet, std::uint32_t snap_bytes);

}  // namespace causeway::wan_sim
