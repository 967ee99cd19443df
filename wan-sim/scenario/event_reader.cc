#include "wan-sim/scenario/link_spec.h"

#include <algorithm>
#include <sstream>

namespace causeway::wan_sim {
namespace {

constexpr NumberKey kAt{"at_s", 0, 1e7, "s"};
constexpr NumberKey kFor{"for_s", 0.001, 1e7, "s"};
constexpr NumberKey kClose{"close_ms", 0, 600'000, "ms"};
constexpr NumberKey kPeriod{"period_s", 0.002, 1e6, "s"};
constexpr NumberKey kDown{"down_s", 0.001, 1e6, "s"};
constexpr NumberKey kTimes{"times", 1, 10'000, ""};
constexpr NumberKey kRank{"rank", 0, 65'535, ""};
constexpr std::string_view kFlap = "flap", kHeal = "heal";

// What the timeline may change: what a link can take on at any moment.
bool changeable(std::string_view key) {
  return !key.starts_with("stall") && key != "jitter_parameter";
}

unsigned engines_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::black_hole:
    case FaultKind::stall:
      return kAllEngines;
    case FaultKind::reset:
    case FaultKind::refuse:
      return kRelay | kChunks | kFluid;
    case FaultKind::slow_close:
    case FaultKind::corrupt:
    case FaultKind::kill_after:
      return kRelay;
  }
  return 0;
}

std::string one_line(const toml::table& table) {
  std::ostringstream text;
  const char* comma = "";
  for (const auto& [key, node] : table) {
    if (key == kAt.key || key == kFor.key) continue;
    text << std::exchange(comma, ", ") << key.str() << " = ";
    node.visit([&](const auto& value) { text << value; });
  }
  return text.str();
}

class EventReader {
 public:
  EventReader(const TomlReader& reader, const Scenario& scenario, const toml::table& table,
              std::vector<SettingUse>& uses)
      : reader_(reader), scenario_(scenario), table_(table), uses_(uses) {}

  std::vector<TimedAction> read(bool timed);

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    reader_.fail(line_of(table_), problem);
  }
  void allow(std::vector<std::string_view> more) const;
  Time seconds(const NumberKey& key) const;
  std::string region(const toml::node& node) const;
  std::vector<Pair> links() const;
  void note(std::string_view name, unsigned engines);
  void fault(Time at);
  void flap(Time at);
  void process(Time at);
  void settings(Time at);
  // The first one of an event does it; any other undoes it, except in a flap.
  void add(Time at, decltype(Action::what) what);
  bool is_flap() const { return table_["fault"].value_or(std::string_view()) == kFlap; }

  const TomlReader& reader_;
  const Scenario& scenario_;
  const toml::table& table_;
  std::vector<SettingUse>& uses_;
  std::vector<Pair> links_;
  std::shared_ptr<const void> span_;
  std::vector<TimedAction> actions_;
};

void EventReader::allow(std::vector<std::string_view> more) const {
  for (const auto key : {kAt.key, kFor.key, std::string_view("link"), std::string_view("pair")}) {
    more.push_back(key);
  }
  reader_.allow_only(table_, more);
}

Time EventReader::seconds(const NumberKey& key) const {
  const toml::node* node = table_.get(key.key);
  if (!node) fail("needs " + std::string(key.key));
  return Time(static_cast<Time::rep>(1e9 * reader_.number(*node, key)));
}

std::string EventReader::region(const toml::node& node) const {
  const std::string name = reader_.text(node, "a region");
  const auto& known = scenario_.regions;
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    const std::vector<std::string_view> names(known.begin(), known.end());
    reader_.fail(line_of(node), "'" + name + "' is not one of the regions (" + join(names) + ")");
  }
  return name;
}

std::vector<Pair> EventReader::links() const {
  const toml::node* pair = table_.get("pair");
  const toml::node* link = table_.get("link");
  if (pair && link) fail("pair (both ways) and link (one way) exclude each other");
  std::vector<Pair> links;
  if (!pair && !link) {
    for (const auto& [each, profile] : scenario_.links) links.push_back(each);
    return links;
  }
  const toml::array* ends = (pair ? pair : link)->as_array();
  if (!ends || ends->size() != 2) fail("pair and link are two regions, as in [\"eu\", \"us\"]");
  const Pair there{region((*ends)[0]), region((*ends)[1])};
  if (there.first == there.second) fail("a link needs two different regions");
  links.push_back(there);
  if (pair) links.emplace_back(there.second, there.first);
  return links;
}

void EventReader::note(std::string_view name, unsigned engines) {
  if (engines != kAllEngines) uses_.push_back({std::string(name), line_of(table_), engines});
}

void EventReader::add(Time at, decltype(Action::what) what) {
  const bool undoes = !actions_.empty() && !is_flap();
  actions_.push_back(
      {at, {links_, std::move(what), (undoes ? "end of: " : "") + one_line(table_)}, span_});
}

void EventReader::flap(Time at) {
  allow({"fault", kPeriod.key, kDown.key, kTimes.key});
  const Time period = seconds(kPeriod), down = seconds(kDown);
  if (down >= period) fail("down_s must be less than period_s");
  const toml::node* times = table_.get(kTimes.key);
  if (!times) fail("a flap needs times: how often the link goes down");
  const auto count = static_cast<int>(reader_.number(*times, kTimes));
  for (int i = 0; i < count; ++i) {
    add(at + i * period, Fault{FaultKind::black_hole});
    add(at + i * period + down, Heal{FaultKind::black_hole});
  }
}

void EventReader::fault(Time at) {
  std::vector<std::string_view> words(std::begin(kFaults), std::end(kFaults));
  words.push_back(kFlap);
  words.push_back(kHeal);
  const std::size_t word = reader_.choice(*table_.get("fault"), "fault", words);
  if (words[word] == kFlap) return flap(at);
  if (words[word] == kHeal) {
    allow({"fault"});
    return add(at, Heal{});
  }
  Fault fault{static_cast<FaultKind>(word)};
  note(words[word], engines_of(fault.kind));
  const bool by_bytes = fault.kind == FaultKind::corrupt || fault.kind == FaultKind::kill_after;
  const bool closes = fault.kind == FaultKind::slow_close;
  allow(by_bytes ? std::vector<std::string_view>{"fault", "after_bytes"}
        : closes ? std::vector<std::string_view>{"fault", kClose.key}
                 : std::vector<std::string_view>{"fault"});
  if (by_bytes) {
    const toml::node* bytes = table_.get("after_bytes");
    if (!bytes) fail(std::string(words[word]) + " needs after_bytes");
    fault.bytes = reader_.whole(*bytes, "after_bytes");
  }
  if (closes) {
    const toml::node* close = table_.get(kClose.key);
    if (!close) fail("slow-close needs close_ms: how much longer an end of stream takes");
    fault.length = Time(static_cast<Time::rep>(1e6 * reader_.number(*close, kClose)));
  }
  const bool lasts = !by_bytes && fault.kind != FaultKind::reset;
  const bool ends = table_.contains(kFor.key);
  if (!lasts && ends) fail(std::string(words[word]) + " happens once; remove for_s");
  if (fault.kind == FaultKind::stall) {
    fault.length = seconds(kFor);
    return add(at, fault);
  }
  add(at, fault);
  if (ends) add(at + seconds(kFor), Heal{fault.kind});
}

void EventReader::process(Time at) {
  reader_.allow_only(table_, {kAt.key, kFor.key, "process", "region", "role", kRank.key});
  const toml::node* name = table_.get("region");
  if (!name) fail("process needs region, whose processes are meant");
  const auto verb =
      static_cast<ProcessVerb>(reader_.choice(*table_.get("process"), "process", kProcessVerbs));
  ProcessAction action{.verb = verb, .region = region(*name)};
  if (const toml::node* role = table_.get("role")) {
    action.target.role = static_cast<ProcessRole>(reader_.choice(*role, "role", kProcessRoles));
  }
  if (const toml::node* rank = table_.get(kRank.key)) {
    if (action.target.role != ProcessRole::worker) fail("rank needs role = \"worker\"");
    action.target.rank = static_cast<std::uint32_t>(reader_.number(*rank, kRank));
  }
  links_.clear();
  add(at, action);
  if (!table_.contains(kFor.key)) return;
  const auto end = undoing(verb);
  if (!end) fail("for_s belongs to pause and kill only; remove it");
  action.verb = *end;
  add(at + seconds(kFor), action);
}

void EventReader::settings(Time at) {
  std::vector<std::string_view> allowed{"rtt_ms", "fault", "process"};
  for (const LinkKey& key : link_keys()) {
    if (changeable(key.name)) allowed.push_back(key.name);
  }
  allow(allowed);
  LinkSpec spec = read_link_spec(reader_, table_, uses_);
  if (spec.numbers.empty()) {
    fail(
        "this event does nothing; give fault, process, or a setting of a link such as rate_mbit_s");
  }
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : spec.numbers) keys.push_back(key);
  add(at, std::move(spec.numbers));
  if (table_.contains(kFor.key)) add(at + seconds(kFor), Restore{std::move(keys)});
}

std::vector<TimedAction> EventReader::read(bool timed) {
  if (!timed && table_.contains(kAt.key)) fail("at_s belongs in files; a command happens at once");
  const Time at = timed ? seconds(kAt) : Time{0};
  if (table_.contains(kFor.key) || is_flap()) span_ = std::make_shared<const char>();
  if (table_.contains("process")) {
    process(at);
    return actions_;
  }
  links_ = links();
  if (table_.contains("fault"))
    fault(at);
  else
    settings(at);
  return actions_;
}

}  // namespace

std::vector<TimedAction> read_event(const TomlReader& reader, const Scenario& scenario,
                                    const toml::table& table, bool timed,
                                    std::vector<SettingUse>& uses) {
  return EventReader(reader, scenario, table, uses).read(timed);
}

}  // namespace causeway::wan_sim
