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

tcp::endpoint resolve_for(const std::string& flag, const inter::Endpoint& endpoint) {
  asio::io_context context;
  std::error_code error;
  const auto found =
      tcp::resolver(context).resolve(endpoint.host, std::to_string(endpoint.port), error);
  if (error)
    throw CLI::ValidationError(flag, "cannot resolve " + endpoint.host + ": " + error.message());
  return *found.begin();
}

}  // namespace causeway::apps
