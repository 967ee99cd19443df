#include "apps/wan/wan_map.h"

#include <sstream>
#include <system_error>

#include <CLI/CLI.hpp>
#include <asio/io_context.hpp>

namespace causeway::apps {
namespace {

using asio::ip::tcp;

constexpr char kForm[] = "FROM:TO=HOST:PORT[,listen=HOST:PORT][,udp]";
constexpr std::string_view kListen = "listen=";

[[noreturn]] void bad_map(const std::string& text, const std::string& problem) {
  throw CLI::ValidationError("--map", "'" + text + "'" + problem);
}

inter::Endpoint endpoint_in(const std::string& text, const std::string& whole) {
  try {
    return inter::parse_endpoint(text);
  } catch (const std::system_error& error) {
    bad_map(whole, std::string(": ") + error.what());
  }
}

}  // namespace

WanMap parse_wan_map(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::size_t colon = text.find(':');
  if (equals == std::string::npos || colon == std::string::npos || colon > equals) {
    bad_map(text, std::string(" is not ") + kForm);
  }
  std::istringstream parts(text.substr(equals + 1));
  std::string part;
  std::getline(parts, part, ',');
  WanMap map{text, text.substr(0, colon), text.substr(colon + 1, equals - colon - 1),
             endpoint_in(part, text)};
  while (std::getline(parts, part, ',')) {
    if (part == "udp")
      map.udp = true;
    else if (part.starts_with(kListen))
      map.listen = endpoint_in(part.substr(kListen.size()), text);
    else
      bad_map(text, ": '" + part + "' is not known; " + kForm);
  }
  return map;
}

void check_maps_differ(const std::vector<WanMap>& maps) {
  const auto refuse = [](const WanMap& one, const WanMap& other, const std::string& why) {
    throw CLI::ValidationError("--map", "'" + one.text + "' and '" + other.text + "' " + why);
  };
  for (auto one = maps.begin(); one != maps.end(); ++one) {
    for (auto other = one + 1; other != maps.end(); ++other) {
      if (one->udp != other->udp) continue;
      if (one->listen == other->listen && one->listen.port != 0)
        refuse(*one, *other, "listen at the same place; give each its own");
      const bool same_way = one->from == other->from && one->to == other->to;
      if (same_way && one->target == other->target && one->listen == other->listen)
        refuse(*one, *other, "are the same way twice; leave one out, or name another target");
    }
  }
}

std::vector<tcp::endpoint> resolve_for(const std::string& flag, const inter::Endpoint& endpoint) {
  asio::io_context context;
  std::error_code error;
  const auto found =
      tcp::resolver(context).resolve(endpoint.host, std::to_string(endpoint.port), error);
  if (error)
    throw CLI::ValidationError(flag, "cannot resolve " + endpoint.host + ": " + error.message());
  return {found.begin(), found.end()};
}

}  // namespace causeway::apps
