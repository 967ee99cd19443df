// What --map asks for: where a region reaches another one through the relay.
#pragma once

#include <string>
#include <vector>

#include <asio/ip/tcp.hpp>

#include "inter/mesh/mesh.h"

namespace causeway::apps {

struct WanMap {
  std::string text;      // as given
  std::string from, to;  // regions or hosts
  inter::Endpoint target;
  inter::Endpoint listen{"127.0.0.1", 0};  // port 0: any free one
  bool udp = false;
};

// FROM:TO=HOST:PORT[,listen=HOST:PORT][,udp]. Throws CLI::ValidationError with what is allowed.
WanMap parse_wan_map(const std::string& text);

// Two for one way: somebody meant another. Two that listen at one place: the second cannot. Throws
// CLI::ValidationError naming both. One link may have several to different targets.
void check_maps_differ(const std::vector<WanMap>& maps);

// Looks the name up, which may have several addresses. Throws CLI::ValidationError naming `flag`.
std::vector<asio::ip::tcp::endpoint> resolve_for(const std::string& flag,
                                                 const inter::Endpoint& endpoint);

// With brackets around an IPv6 address.
template <typename Protocol>
std::string to_text(const asio::ip::basic_endpoint<Protocol>& endpoint) {
  return inter::to_string({endpoint.address().to_string(), endpoint.port()});
}

}  // namespace causeway::apps
