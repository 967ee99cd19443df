#include "wan-sim/scenario/link_spec.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

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

namespace {

constexpr NumberKey kRtt{"rtt_ms", 0, 10'000, "ms"};
constexpr NumberKey kBurst{"loss_burst_packets", 1, 10'000, "packets"};
constexpr NumberKey kChain{"gilbert_elliott", 0, 1, "(enter, leave, loss when good, when bad)"};
constexpr NumberKey kTable{"jitter_table_ms", -5'000, 60'000, "ms"};
constexpr std::string_view kOrder = "jitter_order", kOrders[] = {"kept", "free"};
constexpr std::size_t kTableMin = 2, kTableMax = 100'000;
constexpr double kLognormalSigma = 0.5, kParetoAlpha = 3;
constexpr double kParetoAlphaMin = 1.05;

// Above this share of time in stalls a link hardly moves.
constexpr double kStallShareMax = 1.0;

void exclude(const TomlReader& reader, const toml::table& table, std::string_view a,
             std::string_view b) {
  if (!table.contains(a) || !table.contains(b)) return;
  reader.fail(line_of(table),
              std::string(a) + " and " + std::string(b) + " exclude each other: give one of them");
}

void note(std::vector<SettingUse>& uses, const toml::table& table, std::string_view key,
          unsigned engines) {
  if (engines == kAllEngines) return;
  if (const toml::node* node = table.get(key)) {
    uses.push_back({std::string(key), line_of(*node), engines});
  }
}

void read_numbers(const TomlReader& reader, const toml::table& table, LinkSpec& spec,
                  std::vector<SettingUse>& uses) {
  for (const LinkKey& key : link_keys()) {
    const toml::node* node = table.get(key.name);
    if (!node) continue;
    const double value = reader.number(*node, {key.name, key.min, key.max, key.unit});
    spec.numbers[key.name] = value;
    if (value != 0) note(uses, table, key.name, key.engines);
  }
  if (const toml::node* rtt = table.get(kRtt.key)) {
    // Both say how long a byte travels. A round trip is split in halves.
    spec.numbers["delay_ms"] = reader.number(*rtt, kRtt) / 2;
  }
}

void read_jitter(const TomlReader& reader, const toml::table& table, LinkSpec& spec,
                 std::vector<SettingUse>& uses) {
  if (const toml::node* node = table.get("jitter")) {
    spec.jitter = static_cast<JitterShape>(reader.choice(*node, "jitter", kJitterShapes));
  }
  if (const toml::node* node = table.get(kOrder)) {
    spec.jitter_reorders = reader.choice(*node, kOrder, kOrders) == 1;
    if (*spec.jitter_reorders) note(uses, table, kOrder, kPacket);
  }
  if (const toml::node* node = table.get(kTable.key)) {
    spec.jitter_table_ms = reader.numbers(*node, kTable, kTableMin, kTableMax);
    std::sort(spec.jitter_table_ms->begin(), spec.jitter_table_ms->end());
    if (!spec.jitter) spec.jitter = JitterShape::table;
  }
}

void read_loss(const TomlReader& reader, const toml::table& table, LinkSpec& spec,
               std::vector<SettingUse>& uses) {
  if (const toml::node* node = table.get(kBurst.key)) {
    spec.loss_burst_packets = reader.number(*node, kBurst);
  }
  if (const toml::node* node = table.get(kChain.key)) {
    const auto values = reader.numbers(*node, kChain, 4, 4);
    spec.gilbert_elliott = {
        .good = values[2], .bad = values[3], .enter = values[0], .leave = values[1]};
    if (values[1] == 0) reader.fail(line_of(*node), "gilbert_elliott must leave the bad state");
  }
  note(uses, table, kChain.key, kRelay | kPacket | kChunks);
}

LossProfile loss_of(const TomlReader& reader, const LinkSpec& spec, const LinkProfile& profile) {
  if (spec.gilbert_elliott) return *spec.gilbert_elliott;
  const double mean = profile.loss.mean();
  if (!spec.loss_burst_packets) return profile.loss;
  const LossProfile loss = burst_loss(mean, *spec.loss_burst_packets);
  if (loss.enter > 1) {
    reader.fail(spec.line, fmt::format("loss is too high for bursts of this length: at most {:f}",
                                       *spec.loss_burst_packets / (1 + *spec.loss_burst_packets)));
  }
  return loss;
}

void check_jitter(const TomlReader& reader, const LinkSpec& spec, JitterProfile& jitter) {
  if (jitter.shape == JitterShape::table && !spec.jitter_table_ms) {
    reader.fail(spec.line, "jitter = \"table\" needs jitter_table_ms");
  }
  if (jitter.shape == JitterShape::pareto) {
    if (jitter.parameter == 0) jitter.parameter = kParetoAlpha;
    if (jitter.parameter < kParetoAlphaMin) {
      reader.fail(spec.line, "jitter_parameter of pareto must be at least 1.05, or it has no mean");
    }
  }
  if (jitter.shape == JitterShape::lognormal && jitter.parameter == 0) {
    jitter.parameter = kLognormalSigma;
  }
}

}  // namespace

std::vector<std::string_view> allowed_keys(DelayKeys delay) {
  std::vector<std::string_view> keys;
  if (delay != DelayKeys::one_way) keys.push_back(kRtt.key);
  for (const LinkKey& key : link_keys()) {
    if (key.name != "delay_ms" || delay != DelayKeys::rtt) keys.push_back(key.name);
  }
  for (const auto key : {"jitter", "jitter_order", "jitter_table_ms", "congestion",
                         "loss_burst_packets", "gilbert_elliott", "trace"}) {
    keys.push_back(key);
  }
  return keys;
}

LinkSpec read_link_spec(const TomlReader& reader, const toml::table& table,
                        std::vector<SettingUse>& uses) {
  LinkSpec spec;
  spec.line = line_of(table);
  exclude(reader, table, "rtt_ms", "delay_ms");
  exclude(reader, table, "queue_kib", "queue_ms");
  exclude(reader, table, "loss", "gilbert_elliott");
  exclude(reader, table, "loss_burst_packets", "gilbert_elliott");
  read_numbers(reader, table, spec, uses);
  read_jitter(reader, table, spec, uses);
  read_loss(reader, table, spec, uses);
  if (const toml::node* node = table.get("congestion")) {
    spec.congestion = static_cast<Congestion>(reader.choice(*node, "congestion", kCongestions));
    // Real TCP always has a congestion control; a fluid has none.
    const unsigned engines =
        spec.congestion == Congestion::none ? kAllEngines & ~kPacket : kAllEngines & ~kFluid;
    note(uses, table, "congestion", engines);
  }
  if (const toml::node* node = table.get("trace")) {
    spec.trace = reader.text(*node, "trace");
    const auto file = reader.file().parent_path() / *spec.trace;
    if (!std::filesystem::exists(file)) {
      reader.fail(line_of(*node), "the trace " + file.string() + " does not exist");
    }
  }
  return spec;
}

void fill(LinkSpec& spec, const LinkSpec& fallback) {
  const bool has_queue = spec.numbers.contains("queue_kib") || spec.numbers.contains("queue_ms");
  const bool has_loss = spec.numbers.contains("loss") || spec.gilbert_elliott;
  for (const auto& [name, value] : fallback.numbers) {
    if (has_queue && name.starts_with("queue_")) continue;
    if (has_loss && name == "loss") continue;
    spec.numbers.emplace(name, value);
  }
  const auto take = [](auto& mine, const auto& other) {
    if (!mine) mine = other;
  };
  if (!has_loss) take(spec.gilbert_elliott, fallback.gilbert_elliott);
  if (!spec.gilbert_elliott) take(spec.loss_burst_packets, fallback.loss_burst_packets);
  take(spec.jitter, fallback.jitter);
  take(spec.jitter_reorders, fallback.jitter_reorders);
  take(spec.jitter_table_ms, fallback.jitter_table_ms);
  take(spec.congestion, fallback.congestion);
  take(spec.trace, fallback.trace);
  if (spec.line == 0) spec.line = fallback.line;
}

LinkProfile to_profile(const TomlReader& reader, const LinkSpec& spec, const std::string& name) {
  LinkProfile profile;
  apply(spec.numbers, profile);
  profile.jitter.shape = spec.jitter.value_or(JitterShape::half_normal);
  profile.jitter_reorders = spec.jitter_reorders.value_or(false);
  if (spec.jitter_table_ms) profile.jitter.table_ms = *spec.jitter_table_ms;
  check_jitter(reader, spec, profile.jitter);
  profile.loss = loss_of(reader, spec, profile);
  profile.congestion = spec.congestion.value_or(Congestion::none);
  const double share = profile.stalls_per_s * std::chrono::duration<double>(profile.stall).count();
  if (share > kStallShareMax) {
    reader.fail(spec.line, "stalls_per_s x stall_ms must be at most 1000: a link " + name +
                               " would stand still nearly always");
  }
  return profile;
}

}  // namespace causeway::wan_sim
