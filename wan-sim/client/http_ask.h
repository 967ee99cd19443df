// One request to a running wan-sim (--http), and the answer. Blocks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <asio/ip/tcp.hpp>

namespace causeway::wan_sim {

struct HttpReply {
  int status = 0;
  std::string body;  // without line ends behind it
};

// A GET, or a POST of `body`, to the first of these addresses that takes a connection. Throws
// std::system_error if nobody answers within 30 s.
HttpReply http_ask(const std::vector<asio::ip::tcp::endpoint>& servers, const std::string& path,
                   const std::optional<std::string>& body = std::nullopt);

// What is wrong, as a reply says it that is no success: its "error", or all of it.
std::string problem_in(const HttpReply& reply);

}  // namespace causeway::wan_sim
