// Peers that misbehave: raw TCP, and TLS with settings that no coordinator has. They check nothing
// themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "inter/tls/pki.h"

namespace causeway::inter {

// What has happened to a rogue so far.
struct RogueOutcome {
  bool handshaken = false;
  bool ended = false;    // the other side closed, or refused
  std::string received;  // after the handshake
  std::string error;     // what ended it
};
using Outcome = std::shared_ptr<const RogueOutcome>;

struct RogueTls {
  std::optional<Credentials> credentials;  // none: no client certificate
  bool only_tls12 = false;
};

struct RogueTcp {
  std::string source = "127.0.0.1";
  bool keeps_socket = false;  // even when the other side has closed
};

// Connects, sends `bytes`, and stays until the other side closes.
Outcome rogue_tcp(asio::io_context& context, std::uint16_t port, std::string bytes,
                  const RogueTcp& settings = {});

// Connects, sends `bytes` and closes without reading.
void rogue_tcp_that_leaves(asio::io_context& context, std::uint16_t port, std::string bytes);

// Connects, shakes hands, sends `bytes`, and stays until the other side closes.
Outcome rogue_tls(asio::io_context& context, std::uint16_t port, const RogueTls& settings,
                  std::string bytes);

// Accepts connections, sends each `bytes` and closes it. Lives until the context goes.
std::uint16_t rogue_listener(asio::io_context& context, std::string bytes);

}  // namespace causeway::inter
