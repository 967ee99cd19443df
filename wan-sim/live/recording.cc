#include "wan-sim/live/recording.h"

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "wan-sim/base/error.h"
#include "wan-sim/scenario/trace.h"

namespace causeway::wan_sim {
namespace {

constexpr std::size_t kRecordingBytesMax = 1U << 30;

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "causeway-wan-1";
constexpr double kSecondsMax = 1e7;

std::string_view name_of(WanEvent::Kind kind) {
  switch (kind) {
    case WanEvent::Kind::opened:
      return "opened";
    case WanEvent::Kind::closed:
      return "closed";
    case WanEvent::Kind::refused:
      return "refused";
    case WanEvent::Kind::acted:
      return "acted";
    case WanEvent::Kind::commanded:
      return "commanded";
  }
  return "";
}

std::string name_of(const Pair& pair) {
  return pair.first + ":" + pair.second;
}

// A command may hold any bytes; a recording holds text.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json figures(const std::map<Pair, DirectedStats>& stats) {
  Json links = Json::object();
  for (const auto& [pair, link] : stats) {
    links[name_of(pair)] = {{"bytes", link.bytes},
                            {"connections", link.connections},
                            {"buffered_bytes", link.buffered_bytes},
                            {"missed_bytes", link.missed_bytes},
                            {"lateness_p99_us", link.lateness_p99.count()}};
    if (link.datagrams + link.datagrams_lost + link.datagrams_dropped == 0) continue;
    links[name_of(pair)].update({{"datagrams", link.datagrams},
                                 {"datagrams_lost", link.datagrams_lost},
                                 {"datagrams_dropped", link.datagrams_dropped},
                                 {"datagrams_missed", link.datagrams_missed}});
  }
  return links;
}

[[noreturn]] void fail(const std::filesystem::path& file, std::size_t line,
                       const std::string& problem) {
  throw std::system_error(Errc::bad_scenario,
                          fmt::format("{}:{}: {}", file.string(), line, problem));
}

Json parse_line(const std::string& line, const std::filesystem::path& file, std::size_t number) {
  Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) fail(file, number, "is not a JSON object");
  return json;
}

std::string text_in(const Json& json, const char* key, const std::filesystem::path& file,
                    std::size_t number) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) {
    fail(file, number, std::string("needs the string \"") + key + "\"");
  }
  return found->get<std::string>();
}

void add_command(Scenario& scenario, const Json& json, const std::filesystem::path& file,
                 std::size_t number) {
  const auto at = json.find("t");
  if (at == json.end() || !at->is_number() || !(at->get<double>() >= 0) ||
      at->get<double>() > kSecondsMax) {
    fail(file, number, "needs \"t\", seconds since the start");
  }
  const Time begin(static_cast<Time::rep>(1e9 * at->get<double>()));
  std::vector<SettingUse> uses;
  for (TimedAction& action : read_action(scenario, text_in(json, "text", file, number), uses)) {
    action.at += begin;
    scenario.timeline.push_back(std::move(action));
  }
  // Whichever engine replays it says so if it cannot.
  for (SettingUse& use : uses) {
    use.line = static_cast<std::uint32_t>(number);
    use.file = file;
    scenario.uses.push_back(std::move(use));
  }
}

}  // namespace

Recording::Recording(const std::filesystem::path& file, const Scenario& scenario)
    : file_(file), stream_(file, std::ios::binary | std::ios::trunc) {
  if (!stream_) {
    throw std::system_error(errno, std::generic_category(), "recording " + file.string());
  }
  write(text_of({{"format", kFormat},
                 {"file", std::filesystem::absolute(scenario.file).string()},
                 {"scenario", scenario.text}}));
}

void Recording::write(const std::string& line) {
  stream_ << line << '\n' << std::flush;
}

void Recording::add(const WanEvent& event) {
  Json json{{"t", in_seconds(event.at)}, {"event", name_of(event.kind)}};
  if (!event.link.first.empty()) json["link"] = name_of(event.link);
  if (event.number > 0) json["connection"] = event.number;
  if (!event.text.empty()) json["text"] = event.text;
  write(text_of(json));
}

void Recording::add(Time at, const std::map<Pair, DirectedStats>& stats) {
  write(text_of({{"t", in_seconds(at)}, {"event", "figures"}, {"links", figures(stats)}}));
}

void Recording::add(Time at, const Verdict& verdict) {
  write(text_of({{"t", in_seconds(at)},
                 {"event", "verdict"},
                 {"valid", verdict.valid()},
                 {"lateness_p99_us", verdict.lateness_p99.count()},
                 {"shortfall", verdict.shortfall}}));
}

std::string to_json(const std::map<Pair, DirectedStats>& stats) {
  return text_of(figures(stats));
}

Scenario parse_recording(const std::string& text, const std::filesystem::path& file) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line)) fail(file, 1, "is empty");
  const Json head = parse_line(line, file, 1);
  if (head.value("format", Json()) != kFormat) {
    fail(file, 1, std::string("is not a recording: \"format\" must be \"") + kFormat + "\"");
  }
  Scenario scenario =
      parse_scenario(text_in(head, "scenario", file, 1), text_in(head, "file", file, 1));
  for (std::size_t number = 2; std::getline(lines, line); ++number) {
    const Json json = parse_line(line, file, number);
    if (text_in(json, "event", file, number) == "commanded") {
      add_command(scenario, json, file, number);
    }
  }
  std::stable_sort(scenario.timeline.begin(), scenario.timeline.end(),
                   [](const auto& a, const auto& b) { return a.at < b.at; });
  return scenario;
}

Scenario load_recording(const std::filesystem::path& file) {
  return parse_recording(read_input(file, "a recording", kRecordingBytesMax), file);
}

}  // namespace causeway::wan_sim
