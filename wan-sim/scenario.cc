#include "wan-sim/scenario.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <toml++/toml.h>

#include "wan-sim/error.h"

namespace causeway::wan_sim {
namespace {

using Pair = std::pair<std::string, std::string>;

// What a link can be given; a key left out falls back to [defaults], then to the profile's own
// default.
struct Number {
  std::string_view key;
  double min, max;
  std::string_view unit;
};
constexpr Number kRate{"rate_mbit_s", 0.01, 100'000, "Mbit/s"};
constexpr Number kRtt{"rtt_ms", 0, 10'000, "ms"};
constexpr Number kDelay{"delay_ms", 0, 5'000, "ms"};
constexpr Number kJitter{"jitter_ms", 0, 1'000, "ms"};
constexpr Number kStalls{"stalls_per_s", 0, 10, "1/s"};
constexpr Number kStall{"stall_ms", 0, 60'000, "ms"};
constexpr Number kQueue{"queue_kib", 64, 4 * 1024 * 1024, "KiB"};
constexpr std::array kNumbers{kRate, kRtt, kDelay, kJitter, kStalls, kStall, kQueue};

// Above this share of time in stalls a link hardly moves.
constexpr double kStallShareMax = 1.0;
constexpr std::size_t kRegionsMin = 2, kRegionsMax = 64, kNameMax = 63;

struct Settings {
  std::map<std::string_view, double> numbers;
  std::uint32_t line = 0;
};

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string format(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string join(std::span<const std::string_view> words) {
  std::string text;
  for (const auto word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) : file_(file) {}
  Scenario read();

 private:
  [[noreturn]] void fail(std::uint32_t line, const std::string& problem) const;
  void allow_only(const toml::table& table, std::vector<std::string_view> keys) const;
  double number(const toml::node& node, const Number& number) const;
  std::string text(const toml::node& node, std::string_view key) const;
  Settings settings(const toml::table& table) const;
  toml::table parse() const;
  void head(const toml::table& root);
  void regions(const toml::table& root);
  void defaults(const toml::table& root);
  void links(const toml::table& root);
  std::string region(const toml::table& link, std::string_view key) const;
  void link(const toml::node& node);
  void remember(std::map<Pair, Settings>& links, const Pair& pair, const Settings& settings) const;
  LinkProfile profile(const Pair& pair) const;
  Settings merged(const Pair& pair) const;

  std::filesystem::path file_;
  Scenario scenario_;
  Settings defaults_;
  std::map<Pair, Settings> symmetric_;  // both directions of every a/b entry
  std::map<Pair, Settings> directed_;   // from/to entries, which refine those
};

void Reader::fail(std::uint32_t line, const std::string& problem) const {
  const std::string where =
      line == 0 ? file_.string() : file_.string() + ":" + std::to_string(line);
  throw std::system_error(Errc::bad_scenario, where + ": " + problem);
}

void Reader::allow_only(const toml::table& table, std::vector<std::string_view> keys) const {
  for (const auto& [key, node] : table) {
    if (std::find(keys.begin(), keys.end(), key.str()) != keys.end()) continue;
    // Relative to the length, or every short key would be near.
    const auto distance = [&](std::string_view known) {
      return static_cast<double>(edit_distance(known, key.str())) /
             static_cast<double>(std::max(known.size(), key.str().size()));
    };
    const auto nearest = std::min_element(
        keys.begin(), keys.end(), [&](auto a, auto b) { return distance(a) < distance(b); });
    fail(key.source().begin.line, "unknown key '" + std::string(key.str()) + "'; did you mean '" +
                                      std::string(*nearest) + "'? (allowed here: " + join(keys) +
                                      ")");
  }
}

double Reader::number(const toml::node& node, const Number& number) const {
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  if (!value || !(*value >= number.min && *value <= number.max)) {
    fail(node.source().begin.line, std::string(number.key) + " must be a number from " +
                                       format(number.min) + " to " + format(number.max) + " " +
                                       std::string(number.unit));
  }
  return *value;
}

std::string Reader::text(const toml::node& node, std::string_view key) const {
  const auto value = node.value_exact<std::string>();
  if (!value || value->empty()) {
    fail(node.source().begin.line, std::string(key) + " must be a string that is not empty");
  }
  return *value;
}

Settings Reader::settings(const toml::table& table) const {
  Settings settings;
  settings.line = table.source().begin.line;
  for (const Number& known : kNumbers) {
    if (const toml::node* node = table.get(known.key))
      settings.numbers[known.key] = number(*node, known);
  }
  // Both say how long a byte travels. A round trip is split in halves.
  if (const auto rtt = settings.numbers.extract(kRtt.key)) {
    if (settings.numbers.contains(kDelay.key)) {
      fail(settings.line, "rtt_ms and delay_ms exclude each other: give one of them");
    }
    settings.numbers[kDelay.key] = rtt.mapped() / 2;
  }
  return settings;
}

bool is_region_name(const std::string& name) {
  return !name.empty() && name.size() <= kNameMax &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
}

void Reader::regions(const toml::table& root) {
  const toml::array* list = root["regions"].as_array();
  if (!list || list->size() < kRegionsMin || list->size() > kRegionsMax) {
    fail(list ? list->source().begin.line : 0,
         "regions must be a list of 2 to 64 names, as in regions = [\"eu\", \"us\"]");
  }
  for (const toml::node& node : *list) {
    const std::string name = text(node, "a region's name");
    if (!is_region_name(name)) {
      fail(node.source().begin.line,
           "'" + name + "' cannot name a region: 1 to 63 of a-z, 0-9 and -");
    }
    if (std::count(scenario_.regions.begin(), scenario_.regions.end(), name) > 0) {
      fail(node.source().begin.line, "region '" + name + "' is listed twice");
    }
    scenario_.regions.push_back(name);
  }
}

std::string Reader::region(const toml::table& link, std::string_view key) const {
  const std::string name = text(*link.get(key), key);
  const auto& known = scenario_.regions;
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    const std::vector<std::string_view> names(known.begin(), known.end());
    fail(link.get(key)->source().begin.line,
         "'" + name + "' is not one of the regions (" + join(names) + ")");
  }
  return name;
}

void Reader::remember(std::map<Pair, Settings>& links, const Pair& pair,
                      const Settings& settings) const {
  const auto [other, added] = links.emplace(pair, settings);
  if (added) return;
  fail(settings.line, "the link from '" + pair.first + "' to '" + pair.second +
                          "' was already given in line " + std::to_string(other->second.line));
}

void Reader::link(const toml::node& node) {
  const toml::table* table = node.as_table();
  if (!table) fail(node.source().begin.line, "link must be a table, as in [[link]]");
  const std::uint32_t line = table->source().begin.line;
  const bool both_ways = table->contains("a") && table->contains("b");
  const bool one_way = table->contains("from") && table->contains("to");
  if (both_ways == one_way)
    fail(line, "a link needs either a and b (both ways) or from and to (one way)");
  const std::string_view first = both_ways ? "a" : "from", second = both_ways ? "b" : "to";
  const std::string_view delay = both_ways ? kRtt.key : kDelay.key;
  allow_only(*table,
             {first, second, delay, kRate.key, kJitter.key, kStalls.key, kStall.key, kQueue.key});
  const Pair pair{region(*table, first), region(*table, second)};
  if (pair.first == pair.second) fail(line, "a link needs two different regions");
  remember(both_ways ? symmetric_ : directed_, pair, settings(*table));
  if (both_ways) remember(symmetric_, {pair.second, pair.first}, settings(*table));
}

Settings Reader::merged(const Pair& pair) const {
  Settings merged;
  for (const auto* links : {&directed_, &symmetric_}) {
    const auto found = links->find(pair);
    if (found == links->end()) continue;
    merged.numbers.insert(found->second.numbers.begin(), found->second.numbers.end());
    if (merged.line == 0) merged.line = found->second.line;
  }
  merged.numbers.insert(defaults_.numbers.begin(), defaults_.numbers.end());
  return merged;
}

std::chrono::microseconds from_ms(double ms) {
  return std::chrono::microseconds(std::llround(ms * 1000));
}

LinkProfile Reader::profile(const Pair& pair) const {
  const Settings settings = merged(pair);
  const auto get = [&](const Number& number) -> std::optional<double> {
    const auto found = settings.numbers.find(number.key);
    return found == settings.numbers.end() ? std::nullopt : std::optional(found->second);
  };
  if (!get(kRate) || !get(kDelay)) {
    fail(settings.line, "the link from '" + pair.first + "' to '" + pair.second + "' has no " +
                            (get(kRate) ? "rtt_ms or delay_ms" : "rate_mbit_s") +
                            "; add a [[link]] for the pair, or give it in [defaults]");
  }
  LinkProfile profile;
  profile.rate_bytes_per_s = *get(kRate) * 1e6 / 8;
  profile.delay = from_ms(*get(kDelay));
  profile.jitter = from_ms(get(kJitter).value_or(0));
  profile.stalls_per_s = get(kStalls).value_or(0);
  profile.stall = from_ms(get(kStall).value_or(0));
  if (const auto queue = get(kQueue))
    profile.queue_bytes = static_cast<std::uint64_t>(*queue * 1024);
  const double share = profile.stalls_per_s * std::chrono::duration<double>(profile.stall).count();
  if (share > kStallShareMax) {
    fail(settings.line, "stalls_per_s x stall_ms must be at most 1000: a link from '" + pair.first +
                            "' to '" + pair.second + "' would stand still nearly always");
  }
  return profile;
}

void Reader::head(const toml::table& root) {
  allow_only(root, {"name", "seed", "regions", "defaults", "link"});
  scenario_.name = root.contains("name") ? text(*root.get("name"), "name") : file_.stem().string();
  const toml::node* seed = root.get("seed");
  if (!seed) return;
  const auto value = seed->value_exact<std::int64_t>();
  if (!value || *value < 0) fail(seed->source().begin.line, "seed must be an integer from 0");
  scenario_.seed = static_cast<std::uint64_t>(*value);
}

void Reader::defaults(const toml::table& root) {
  const toml::node* node = root.get("defaults");
  if (!node) return;
  if (!node->is_table()) fail(node->source().begin.line, "defaults must be a table");
  std::vector<std::string_view> keys;
  for (const Number& number : kNumbers) keys.push_back(number.key);
  allow_only(*node->as_table(), keys);
  defaults_ = settings(*node->as_table());
}

void Reader::links(const toml::table& root) {
  const toml::node* list = root.get("link");
  if (!list) return;
  if (!list->is_array()) fail(list->source().begin.line, "links are written as [[link]]");
  for (const toml::node& node : *list->as_array()) link(node);
}

toml::table Reader::parse() const {
  try {
    return toml::parse_file(file_.string());
  } catch (const toml::parse_error& error) {
    fail(error.source().begin.line, std::string(error.description()));
  }
}

Scenario Reader::read() {
  const toml::table root = parse();
  head(root);
  regions(root);
  defaults(root);
  links(root);
  for (const auto& from : scenario_.regions) {
    for (const auto& to : scenario_.regions) {
      if (from != to) scenario_.links[{from, to}] = profile({from, to});
    }
  }
  return scenario_;
}

}  // namespace

Scenario load_scenario(const std::filesystem::path& file) {
  return Reader(file).read();
}

}  // namespace causeway::wan_sim
