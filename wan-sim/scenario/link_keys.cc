#include "wan-sim/scenario/link_keys.h"

#include <algorithm>
#include <cmath>

namespace causeway::wan_sim {
namespace {

std::chrono::microseconds from_ms(double ms) {
  return std::chrono::microseconds(std::llround(ms * 1000));
}

// The file has one queue, in bytes or in milliseconds.
void copy_queue(const LinkProfile& from, LinkProfile& to) {
  to.queue_bytes = from.queue_bytes;
  to.queue = from.queue;
}

constexpr unsigned kPerPacket = kRelay | kPacket | kChunks;

const LinkKey kKeys[] = {
    {"rate_mbit_s", 0.01, 100'000, "Mbit/s", kAllEngines,
     [](LinkProfile& p, double v) { p.rate_bytes_per_s = v * 1e6 / 8; },
     [](const LinkProfile& from, LinkProfile& to) { to.rate_bytes_per_s = from.rate_bytes_per_s; }},
    {"delay_ms", 0, 5'000, "ms", kAllEngines,
     [](LinkProfile& p, double v) { p.delay = from_ms(v); },
     [](const LinkProfile& from, LinkProfile& to) { to.delay = from.delay; }},
    {"jitter_ms", 0, 1'000, "ms", kAllEngines,
     [](LinkProfile& p, double v) { p.jitter.scale = from_ms(v); },
     [](const LinkProfile& from, LinkProfile& to) { to.jitter.scale = from.jitter.scale; }},
    {"jitter_parameter", 0.01, 100, "", kAllEngines,
     [](LinkProfile& p, double v) { p.jitter.parameter = v; },
     [](const LinkProfile& from, LinkProfile& to) { to.jitter.parameter = from.jitter.parameter; }},
    {"jitter_correlation", 0, 0.999, "", kAllEngines,
     [](LinkProfile& p, double v) { p.jitter.correlation = v; },
     [](const LinkProfile& from, LinkProfile& to) {
       to.jitter.correlation = from.jitter.correlation;
     }},
    {"stalls_per_s", 0, 10, "1/s", kPerPacket, [](LinkProfile& p, double v) { p.stalls_per_s = v; },
     [](const LinkProfile& from, LinkProfile& to) { to.stalls_per_s = from.stalls_per_s; }},
    {"stall_ms", 0, 60'000, "ms", kPerPacket,
     [](LinkProfile& p, double v) { p.stall = from_ms(v); },
     [](const LinkProfile& from, LinkProfile& to) { to.stall = from.stall; }},
    {"queue_kib", 64, 4 * 1024 * 1024, "KiB", kPerPacket,
     [](LinkProfile& p, double v) {
       p.queue_bytes = static_cast<std::uint64_t>(v * 1024);
       p.queue = std::chrono::microseconds{0};
     },
     copy_queue},
    {"queue_ms", 1, 60'000, "ms", kPerPacket,
     [](LinkProfile& p, double v) { p.queue = from_ms(v); }, copy_queue},
    {"loss", 0, 0.5, "", kPerPacket, [](LinkProfile& p, double v) { p.loss = independent_loss(v); },
     [](const LinkProfile& from, LinkProfile& to) { to.loss = from.loss; }},
    {"send_buffer_kib", 64, 4 * 1024 * 1024, "KiB", kRelay | kChunks,
     [](LinkProfile& p, double v) { p.send_buffer_bytes = static_cast<std::uint64_t>(v * 1024); },
     [](const LinkProfile& from, LinkProfile& to) {
       to.send_buffer_bytes = from.send_buffer_bytes;
     }},
    {"reorder", 0, 1, "", kPacket, [](LinkProfile& p, double v) { p.reorder = v; },
     [](const LinkProfile& from, LinkProfile& to) { to.reorder = from.reorder; }},
    {"duplicate", 0, 1, "", kPacket, [](LinkProfile& p, double v) { p.duplicate = v; },
     [](const LinkProfile& from, LinkProfile& to) { to.duplicate = from.duplicate; }},
    {"corrupt", 0, 1, "", kPacket, [](LinkProfile& p, double v) { p.corrupt = v; },
     [](const LinkProfile& from, LinkProfile& to) { to.corrupt = from.corrupt; }},
};

// However slow the link, a few connections' first packets fit.
constexpr double kSmallestQueueBytes = 64 * 1024;

}  // namespace

std::span<const LinkKey> link_keys() {
  return kKeys;
}

const LinkKey* find_link_key(std::string_view name) {
  const auto* found = std::find_if(std::begin(kKeys), std::end(kKeys),
                                   [&](const LinkKey& key) { return key.name == name; });
  return found == std::end(kKeys) ? nullptr : found;
}

void apply(const Settings& settings, LinkProfile& profile) {
  for (const auto& [name, value] : settings) find_link_key(name)->set(profile, value);
}

void restore(const std::vector<std::string_view>& keys, const LinkProfile& from, LinkProfile& to) {
  for (const auto name : keys) find_link_key(name)->copy(from, to);
}

std::uint64_t LinkProfile::queue_limit_bytes() const {
  if (queue.count() == 0) return queue_bytes;
  const double bytes = rate_bytes_per_s * std::chrono::duration<double>(queue).count();
  return static_cast<std::uint64_t>(std::max(bytes, kSmallestQueueBytes));
}

}  // namespace causeway::wan_sim
