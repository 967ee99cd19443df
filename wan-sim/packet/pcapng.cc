#include "wan-sim/packet/pcapng.h"

#include <algorithm>
#include <array>
#include <bit>

namespace causeway::wan_sim {
namespace {

// Every number has the byte order of this machine, which the magic number tells.
constexpr std::uint32_t kSectionBlock = 0x0a0d0d0a, kInterfaceBlock = 1, kPacketBlock = 6;
constexpr std::uint32_t kMagic = 0x1a2b3c4d;
constexpr std::uint64_t kLengthUnknown = ~std::uint64_t{0};
constexpr std::uint16_t kRawIp = 101;
constexpr std::uint16_t kOptionEnd = 0, kComment = 1, kName = 2, kProgram = 4, kResolution = 9;
constexpr char kNanoseconds = 9;
constexpr std::size_t kBlockFrame = 12, kPacketHead = 20, kOptionHead = 4;

template <typename Number>
void put(std::string& out, Number number) {
  const auto bytes = std::bit_cast<std::array<char, sizeof number>>(number);
  out.append(bytes.data(), bytes.size());
}

constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + 3) / 4 * 4;
}

void put_padded(std::string& out, std::string_view bytes) {
  out += bytes;
  out.append(padded(bytes.size()) - bytes.size(), '\0');
}

void put_option(std::string& out, std::uint16_t code, std::string_view value) {
  put(out, code);
  put(out, static_cast<std::uint16_t>(value.size()));
  put_padded(out, value);
}

void put_block(std::string& out, std::uint32_t type, std::string_view body) {
  const auto bytes = static_cast<std::uint32_t>(kBlockFrame + body.size());
  put(out, type);
  put(out, bytes);
  out += body;
  put(out, bytes);
}

}  // namespace

std::string pcapng_head(std::string_view interface, std::uint32_t snap_bytes) {
  std::string section, described, head;
  put(section, kMagic);
  put(section, std::uint16_t{1});  // version 1.0
  put(section, std::uint16_t{0});
  put(section, kLengthUnknown);
  put_option(section, kProgram, "causeway wan-sim");
  put_option(section, kOptionEnd, "");
  put(described, kRawIp);
  put(described, std::uint16_t{0});
  put(described, snap_bytes);
  put_option(described, kName, interface);
  put_option(described, kResolution, {&kNanoseconds, 1});
  put_option(described, kOptionEnd, "");
  put_block(head, kSectionBlock, section);
  put_block(head, kInterfaceBlock, described);
  return head;
}

std::size_t pcapng_bytes(const PcapngPacket& packet, std::uint32_t snap_bytes) {
  const std::size_t kept = std::min<std::size_t>(packet.ip.size(), snap_bytes);
  const std::size_t comment =
      packet.comment.empty() ? 0 : 2 * kOptionHead + padded(packet.comment.size());
  return kBlockFrame + kPacketHead + padded(kept) + comment;
}

void append_pcapng(std::string& file, const PcapngPacket& packet, std::uint32_t snap_bytes) {
  const std::size_t kept = std::min<std::size_t>(packet.ip.size(), snap_bytes);
  const auto at = static_cast<std::uint64_t>(packet.at.count());
  const auto bytes = static_cast<std::uint32_t>(pcapng_bytes(packet, snap_bytes));
  put(file, kPacketBlock);
  put(file, bytes);
  put(file, std::uint32_t{0});  // the file's only interface
  put(file, static_cast<std::uint32_t>(at >> 32));
  put(file, static_cast<std::uint32_t>(at));
  put(file, static_cast<std::uint32_t>(kept));
  put(file, static_cast<std::uint32_t>(packet.ip.size()));
  put_padded(file, {reinterpret_cast<const char*>(packet.ip.data()), kept});
  if (!packet.comment.empty()) {
    put_option(file, kComment, packet.comment);
    put_option(file, kOptionEnd, "");
  }
  put(file, bytes);
}

}  // namespace causeway::wan_sim
