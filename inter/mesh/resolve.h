// From an endpoint to addresses. Internal to inter, and to workers that dial. By the system's own
// look-up and not c-ares: a site may keep its hosts where only nsswitch.conf says (LDAP, NIS, mDNS,
// systemd-resolved), and c-ares reads files and DNS alone.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>

#include "inter/mesh/mesh.h"

namespace causeway::inter {

// Both throw LinkError if the name cannot be looked up, or not within `limit`: a name server that
// is gone can hold a look-up for a minute, and nothing ends it. So it has a thread of its own,
// which is left behind.
asio::awaitable<std::vector<asio::ip::tcp::endpoint>> resolve(Endpoint endpoint,
                                                              std::chrono::milliseconds limit);
// `meanwhile` is called twice a second; what it throws ends the wait.
std::vector<asio::ip::tcp::endpoint> wait_to_resolve(const Endpoint& endpoint,
                                                     std::chrono::milliseconds limit,
                                                     const std::function<void()>& meanwhile = {});

// Where to listen: the first address of the name, or any address without one. `meanwhile` and what
// is thrown as above.
asio::ip::tcp::endpoint listening_address(const Endpoint& bind, std::chrono::milliseconds limit,
                                          const std::function<void()>& meanwhile = {});

}  // namespace causeway::inter
