#include "wan-sim/scenario/scenario.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "inter/base/text.h"
#include "wan-sim/base/error.h"
#include "wan-sim/scenario/link_spec.h"
#include "wan-sim/scenario/toml_reader.h"
#include "wan-sim/scenario/trace.h"

namespace causeway::wan_sim {
namespace {

constexpr std::size_t kRegionsMin = 2, kRegionsMax = 64, kNameMax = 63;
constexpr NumberKey kHostRate{"rate_mbit_s", 0.01, 100'000, "Mbit/s"};
constexpr NumberKey kLatenessMax{"lateness_max_ms", 0.01, 10'000, "ms"};

class ScenarioReader {
 public:
  ScenarioReader(const std::string& text, const std::filesystem::path& file)
      : reader_(file), text_(text) {}
  Scenario read();

 private:
  void head(const toml::table& root);
  void regions(const toml::table& root);
  void defaults(const toml::table& root);
  void link(const toml::table& table);
  void host(const toml::table& table);
  void profile(const Pair& pair);
  std::string name(const toml::node& node, std::string_view what) const;
  std::string region(const toml::table& table, std::string_view key) const;
  void remember(std::map<Pair, LinkSpec>& links, const Pair& pair, const LinkSpec& spec) const;

  TomlReader reader_;
  const std::string& text_;
  Scenario scenario_;
  LinkSpec defaults_;
  std::map<Pair, LinkSpec> symmetric_;  // both directions of every a/b entry
  std::map<Pair, LinkSpec> directed_;   // from/to entries, which refine those
  std::map<std::string, Trace> traces_;
};

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kNameMax &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
}

std::string ScenarioReader::name(const toml::node& node, std::string_view what) const {
  const std::string name = reader_.text(node, std::string(what) + "'s name");
  if (!is_name(name)) {
    reader_.fail(line_of(node),
                 "'" + name + "' cannot name " + std::string(what) + ": 1 to 63 of a-z, 0-9 and -");
  }
  return name;
}

void ScenarioReader::regions(const toml::table& root) {
  const toml::array* list = root["regions"].as_array();
  if (!list || list->size() < kRegionsMin || list->size() > kRegionsMax) {
    reader_.fail(list ? line_of(*list) : 0,
                 "regions must be a list of 2 to 64 names, as in regions = [\"eu\", \"us\"]");
  }
  for (const toml::node& node : *list) {
    const std::string region = name(node, "a region");
    if (std::count(scenario_.regions.begin(), scenario_.regions.end(), region) > 0) {
      reader_.fail(line_of(node), "region '" + region + "' is listed twice");
    }
    scenario_.regions.push_back(region);
  }
}

std::string ScenarioReader::region(const toml::table& table, std::string_view key) const {
  const toml::node* node = table.get(key);
  if (!node) reader_.fail(line_of(table), "needs " + std::string(key));
  const std::string region = reader_.text(*node, key);
  const auto& known = scenario_.regions;
  if (std::find(known.begin(), known.end(), region) == known.end()) {
    const std::vector<std::string_view> names(known.begin(), known.end());
    reader_.fail(line_of(*node),
                 "'" + region + "' is not one of the regions (" + join(names) + ")");
  }
  return region;
}

void ScenarioReader::remember(std::map<Pair, LinkSpec>& links, const Pair& pair,
                              const LinkSpec& spec) const {
  const auto [other, added] = links.emplace(pair, spec);
  if (added) return;
  reader_.fail(spec.line, fmt::format("the link from '{}' to '{}' was already given in line {}",
                                      pair.first, pair.second, other->second.line));
}

void ScenarioReader::link(const toml::table& table) {
  const std::uint32_t line = line_of(table);
  const bool both_ways = table.contains("a") && table.contains("b");
  const bool one_way = table.contains("from") && table.contains("to");
  if (both_ways == one_way)
    reader_.fail(line, "a link needs either a and b (both ways) or from and to (one way)");
  const std::string_view first = both_ways ? "a" : "from", second = both_ways ? "b" : "to";
  std::vector<std::string_view> allowed{first, second};
  for (const auto key : allowed_keys(both_ways ? DelayKeys::rtt : DelayKeys::one_way)) {
    allowed.push_back(key);
  }
  reader_.allow_only(table, allowed);
  const Pair pair{region(table, first), region(table, second)};
  if (pair.first == pair.second) reader_.fail(line, "a link needs two different regions");
  const LinkSpec spec = read_link_spec(reader_, table, scenario_.uses);
  remember(both_ways ? symmetric_ : directed_, pair, spec);
  if (both_ways) remember(symmetric_, {pair.second, pair.first}, spec);
}

void ScenarioReader::host(const toml::table& table) {
  reader_.allow_only(table, {"name", "region", kHostRate.key});
  const toml::node* named = table.get("name");
  const toml::node* rate = table.get(kHostRate.key);
  if (!named || !rate) reader_.fail(line_of(table), "a host needs name, region and rate_mbit_s");
  const Host host{name(*named, "a host"), region(table, "region"),
                  reader_.number(*rate, kHostRate) * 1e6 / 8};
  for (const Host& other : scenario_.hosts) {
    if (other.name == host.name)
      reader_.fail(line_of(*named), "host '" + host.name + "' is given twice");
  }
  for (const std::string& other : scenario_.regions) {
    if (other == host.name && host.region != other) {
      reader_.fail(line_of(*named), "'" + host.name +
                                        "' is another region: a host may have the name of its own "
                                        "region, or one that no region has");
    }
  }
  scenario_.uses.push_back({"host", line_of(table), kRelay | kFluid});
  scenario_.hosts.push_back(host);
}

void ScenarioReader::profile(const Pair& pair) {
  LinkSpec spec;
  for (const auto* links : {&directed_, &symmetric_}) {
    if (const auto found = links->find(pair); found != links->end()) fill(spec, found->second);
  }
  const std::uint32_t line = spec.line;  // of the link, not of the defaults
  fill(spec, defaults_);
  const bool has_rate = spec.numbers.contains("rate_mbit_s");
  if (!has_rate || !spec.numbers.contains("delay_ms")) {
    reader_.fail(line, "the link from '" + pair.first + "' to '" + pair.second + "' has no " +
                           (has_rate ? "rtt_ms or delay_ms" : "rate_mbit_s") +
                           "; add a [[link]] for the pair, or give it in [defaults]");
  }
  scenario_.links[pair] =
      to_profile(reader_, spec, "from '" + pair.first + "' to '" + pair.second + "'");
  if (!spec.trace) return;
  const auto [trace, added] = traces_.try_emplace(*spec.trace);
  if (added) trace->second = load_trace(reader_.file().parent_path() / *spec.trace);
  scenario_.traces[pair] = trace->second;
}

void ScenarioReader::head(const toml::table& root) {
  reader_.allow_only(
      root, {"name", "seed", "regions", "defaults", "link", "host", "event", "lateness_max_ms"});
  const toml::node* named = root.get("name");
  scenario_.name = named ? reader_.text(*named, "name") : reader_.file().stem().string();
  if (const toml::node* seed = root.get("seed")) scenario_.seed = reader_.whole(*seed, "seed");
  if (const toml::node* late = root.get(kLatenessMax.key)) {
    scenario_.lateness_max = std::chrono::microseconds(
        static_cast<std::int64_t>(1000 * reader_.number(*late, kLatenessMax)));
  }
}

void ScenarioReader::defaults(const toml::table& root) {
  const toml::node* node = root.get("defaults");
  if (!node) return;
  if (!node->is_table()) reader_.fail(line_of(*node), "defaults must be a table");
  reader_.allow_only(*node->as_table(), allowed_keys(DelayKeys::both));
  defaults_ = read_link_spec(reader_, *node->as_table(), scenario_.uses);
}

Scenario ScenarioReader::read() {
  scenario_.file = reader_.file();
  scenario_.text = text_;
  const toml::table root = reader_.parse(text_);
  head(root);
  regions(root);
  defaults(root);
  for (const toml::table* table : reader_.tables(root, "link")) link(*table);
  for (const toml::table* table : reader_.tables(root, "host")) host(*table);
  for (const auto& from : scenario_.regions) {
    for (const auto& to : scenario_.regions) {
      if (from != to) profile({from, to});
    }
  }
  for (const toml::table* table : reader_.tables(root, "event")) {
    for (auto& action : read_event(reader_, scenario_, *table, true, scenario_.uses)) {
      scenario_.timeline.push_back(std::move(action));
    }
  }
  std::stable_sort(scenario_.timeline.begin(), scenario_.timeline.end(),
                   [](const auto& a, const auto& b) { return a.at < b.at; });
  return scenario_;
}

std::string_view name_of(Engine engine) {
  switch (engine) {
    case Engine::relay:
      return "relay";
    case Engine::packet:
      return "packet";
    case Engine::virtual_chunks:
      return "virtual (chunks)";
    case Engine::virtual_fluid:
      return "virtual (fluid)";
  }
  return "";
}

unsigned bits_of(std::optional<Engine> engine) {
  return engine ? static_cast<unsigned>(*engine) : 0;
}

std::string others(unsigned engines) {
  std::string text;
  for (const Engine engine :
       {Engine::relay, Engine::packet, Engine::virtual_chunks, Engine::virtual_fluid}) {
    if (engines & static_cast<unsigned>(engine)) inter::append_item(text, name_of(engine));
  }
  return text;
}

}  // namespace

std::optional<ProcessVerb> undoing(ProcessVerb verb) {
  if (verb == ProcessVerb::kill) return ProcessVerb::restart;
  if (verb == ProcessVerb::pause) return ProcessVerb::resume;
  return std::nullopt;
}

Scenario parse_scenario(const std::string& text, const std::filesystem::path& file) {
  return ScenarioReader(text, file).read();
}

Scenario load_scenario(const std::filesystem::path& file) {
  return parse_scenario(read_input(file, "a scenario file"), file);
}

std::vector<TimedAction> read_action(const Scenario& scenario, const std::string& line,
                                     std::vector<SettingUse>& uses) {
  const TomlReader reader("control");
  const toml::table root = reader.parse("event = {" + line + "}");
  const toml::table* event = root["event"].as_table();
  if (!event || root.size() != 1) reader.fail(1, "must be `key = value, key = value` on one line");
  return read_event(reader, scenario, *event, false, uses);
}

std::vector<TimedAction> parse_action(const Scenario& scenario, const std::string& line,
                                      Engine engine, std::optional<Engine> also) {
  std::vector<SettingUse> uses;
  auto actions = read_action(scenario, line, uses);
  for (const SettingUse& use : uses) {
    if (use.engines & (bits_of(engine) | bits_of(also))) continue;
    throw std::system_error(Errc::bad_scenario,
                            fmt::format("control:1: the {} engine cannot honour {}; engines that "
                                        "can: {}",
                                        name_of(engine), use.name, others(use.engines)));
  }
  return actions;
}

void require_honoured(const Scenario& scenario, Engine engine, std::optional<Engine> also) {
  for (const SettingUse& use : scenario.uses) {
    if (use.engines & (bits_of(engine) | bits_of(also))) continue;
    throw std::system_error(
        Errc::bad_scenario,
        fmt::format("{}:{}: the {} engine cannot honour {}; engines that can: {}",
                    (use.file.empty() ? scenario.file : use.file).string(), use.line,
                    name_of(engine), use.name, others(use.engines)));
  }
}

void refuse_process_actions(const Scenario& scenario) {
  for (const TimedAction& timed : scenario.timeline) {
    if (!std::holds_alternative<ProcessAction>(timed.action.what)) continue;
    throw std::system_error(Errc::bad_scenario, scenario.file.string() +
                                                    ": only causeway simulate runs processes, and "
                                                    "an event asks for it: " +
                                                    timed.action.text);
  }
}

void refuse_process_actions(const std::vector<TimedAction>& commanded) {
  for (const TimedAction& timed : commanded) {
    if (!std::holds_alternative<ProcessAction>(timed.action.what)) continue;
    throw std::system_error(Errc::bad_scenario,
                            "wan-sim runs no processes of regions; only causeway simulate can "
                            "kill, pause or restart them");
  }
}

}  // namespace causeway::wan_sim
