#include "apps/wan/wan_tell.h"

#include <map>
#include <system_error>

#include <nlohmann/json.hpp>

#include "apps/wan/wan_map.h"
#include "wan-sim/client/http_ask.h"
#include "wan-sim/live/control.h"

namespace causeway::apps {
namespace {

constexpr std::string_view kScheme = "http://";

const std::map<std::string, std::string> kQuestions{
    {"stats", "/links"}, {"links", "/links"}, {"maps", "/maps"}, {"verdict", "/verdict"}};

// What people read: the page, or the text of what the server says of a command.
std::string said_in(const wan_sim::HttpReply& reply) {
  if (reply.status != 200) return "error: " + wan_sim::problem_in(reply);
  const nlohmann::json json = nlohmann::json::parse(reply.body, nullptr, false);
  return json.is_object() && json.contains("ok") ? "ok" : reply.body;
}

std::string tell_over_http(const std::string& where, const std::string& command) {
  std::string host = where.substr(kScheme.size());
  while (host.ends_with('/')) host.pop_back();
  const auto servers = resolve_for("--tell", inter::parse_endpoint(host));
  const auto question = kQuestions.find(command);
  return said_in(question != kQuestions.end() ? wan_sim::http_ask(servers, question->second)
                                              : wan_sim::http_ask(servers, "/command", command));
}

}  // namespace

std::string wan_tell(const std::string& where, const std::string& command) {
  if (!where.starts_with(kScheme)) return wan_sim::tell(where, command);
  try {
    return tell_over_http(where, command);
  } catch (const std::system_error& error) {
    throw std::system_error(error.code(),
                            where + ": nobody answers; start wan-sim with --http there");
  }
}

}  // namespace causeway::apps
