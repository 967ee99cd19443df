// What a file says about one link: in [defaults], in a [[link]] of both directions, or of one.
// Internal to wan-sim.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "wan-sim/scenario/scenario.h"
#include "wan-sim/scenario/toml_reader.h"

namespace causeway::wan_sim {

// The settings of a link in one place: unit, range, which engines honour them, and where they go.
inline constexpr unsigned kRelay = 1, kPacket = 2, kChunks = 4, kFluid = 8, kAllEngines = 15;

struct LinkKey {
  std::string_view name;
  double min, max;
  std::string_view unit;
  unsigned engines;  // that honour a value other than the default
  void (*set)(LinkProfile&, double);
  void (*copy)(const LinkProfile& from, LinkProfile& to);  // what `set` sets
};
std::span<const LinkKey> link_keys();
const LinkKey* find_link_key(std::string_view name);

struct LinkSpec {
  Settings numbers;
  std::optional<JitterShape> jitter;
  std::optional<std::vector<double>> jitter_table_ms;
  std::optional<bool> jitter_reorders;
  std::optional<Congestion> congestion;
  std::optional<double> loss_burst_packets;
  std::optional<LossProfile> gilbert_elliott;
  std::optional<std::string> trace;
  std::uint32_t line = 0;
};

enum class DelayKeys { rtt, one_way, both };  // how a table may say how long a byte travels

std::vector<std::string_view> allowed_keys(DelayKeys delay);
// Notes in `uses` what not every engine honours.
LinkSpec read_link_spec(const TomlReader& reader, const toml::table& table,
                        std::vector<SettingUse>& uses);
// What `spec` leaves out is taken from `fallback`.
void fill(LinkSpec& spec, const LinkSpec& fallback);
// Checks what only the whole can tell. `name` is for messages.
LinkProfile to_profile(const TomlReader& reader, const LinkSpec& spec, const std::string& name);

// [[event]] tables, and the same as one line on the control socket.
// The action, and what undoes it if for_s says when. `timed`: at_s is required; otherwise refused.
std::vector<TimedAction> read_event(const TomlReader& reader, const Scenario& scenario,
                                    const toml::table& table, bool timed,
                                    std::vector<SettingUse>& uses);

}  // namespace causeway::wan_sim
