#include "apps/wan/wan_command.h"

#include <algorithm>
#include <system_error>

#include <nlohmann/json.hpp>

#include "wan-sim/base/error.h"

namespace causeway::apps {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void bad(const std::string& problem) {
  throw std::system_error(wan_sim::Errc::bad_scenario, problem);
}

bool is_key(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_';
  });
}

// A string, number or truth value of JSON is the same text in TOML, and so is a list of them.
void check_value(const std::string& key, const Json& value, bool lists_too) {
  if (value.is_array() && lists_too) {
    for (const Json& one : value) check_value(key, one, false);
  } else if (!value.is_string() && !value.is_number() && !value.is_boolean()) {
    bad("\"" + key + "\" must be a number, a string, or a list of strings");
  }
}

std::string line_of(const Json& command) {
  std::string line;
  for (const auto& [key, value] : command.items()) {
    if (!is_key(key)) bad("a key is made of a-z, 0-9 and _");
    check_value(key, value, true);
    line += (line.empty() ? "" : ", ") + key + " = " + value.dump();
  }
  return line;
}

Json parse_object(const std::string& body) {
  // Deep nesting costs stack, and nothing here is nested.
  const auto flat = [](int depth, Json::parse_event_t, Json&) { return depth <= 2; };
  Json json = Json::parse(body, flat, false);
  if (!json.is_object()) bad("must be a JSON object, such as {\"pair\": [\"eu\", \"us\"]}");
  return json;
}

}  // namespace

const std::map<std::string, std::vector<std::string>>& wan_command_verbs(wan_sim::Engine engine) {
  using Verbs = std::map<std::string, std::vector<std::string>>;
  static const Verbs of_packets{
      {"/cut", {"black-hole"}}, {"/heal", {"heal"}}, {"/pause", {"stall"}}};
  static const Verbs of_relay{
      {"/cut", {"refuse", "reset"}}, {"/heal", {"heal"}}, {"/pause", {"stall"}}};
  return engine == wan_sim::Engine::packet ? of_packets : of_relay;
}

std::vector<std::string> wan_command_lines(wan_sim::Engine engine, const std::string& path,
                                           const std::string& body) {
  const std::string text = body.substr(0, body.find_last_not_of("\r\n ") + 1);
  if (path == "/command") return {text.starts_with('{') ? line_of(parse_object(text)) : text};
  const Json asked = text.empty() ? Json::object() : parse_object(text);
  std::vector<std::string> lines;
  for (const std::string& fault : wan_command_verbs(engine).at(path)) {
    Json command = asked;
    command["fault"] = fault;
    if (fault == "reset") command.erase("for_s");  // it happens once; the refusal lasts
    lines.push_back(line_of(command));
  }
  return lines;
}

bool wan_capture_wish(const std::string& body) {
  const Json asked = parse_object(body);
  const auto on = asked.find("on");
  if (asked.size() != 1 || on == asked.end() || !on->is_boolean())
    bad("must be {\"on\": true} or {\"on\": false}");
  return on->get<bool>();
}

}  // namespace causeway::apps
