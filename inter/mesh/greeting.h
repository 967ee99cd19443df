// What two coordinators say to each other before a connection counts: docs/wire-format.md,
// "Greeting".
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include <asio/awaitable.hpp>

#include "inter/frame/frame_body.h"
#include "inter/mesh/connection.h"

namespace causeway::inter {

// Empty: accepted. Otherwise the reason.
struct Verdicts {
  std::string ours;
  std::string theirs;
};

using Judge = std::function<std::string(const std::string& greeting)>;

// All throw LinkError. Bounding them in time is the caller's part.

// The dialler's side of a control connection.
asio::awaitable<Verdicts> greet_listener(Connection& connection, const std::string& peer,
                                         const Hello& mine, const Judge& judge);
// The listener's side, once it has read the dialler's hello.
asio::awaitable<Verdicts> greet_dialler(Connection& connection, const Hello& theirs,
                                        const Hello& mine, const Judge& judge);

// The dialler's side of a data connection: the listener's verdict.
asio::awaitable<std::string> join_session(Connection& connection, const Hello& mine);

// Of a connection that stands and on which the other end does not answer: "no TLS handshake", say.
std::string unanswered(const std::string& what, std::chrono::milliseconds deadline);

asio::awaitable<Hello> read_hello(Connection& connection);

// Tells the peer why it is not served, then throws that reason.
asio::awaitable<void> refuse(Connection& connection, const std::string& reason);

}  // namespace causeway::inter
