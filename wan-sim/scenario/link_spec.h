// What a file says about one link: in [defaults], in a [[link]] of both directions, or of one.
// Internal to wan-sim.
#pragma once

#include <optional>
#include <vector>

#include "wan-sim/scenario/scenario.h"
#include "wan-sim/scenario/toml_reader.h"

namespace causeway::wan_sim {

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

}  // namespace causeway::wan_sim
