// From an endpoint to addresses. Internal to inter.
#pragma once

#include <vector>

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>

#include "inter/mesh.h"

namespace causeway::inter {

// Throws LinkError if the name cannot be looked up. Ends when the resolver is cancelled.
asio::awaitable<std::vector<asio::ip::tcp::endpoint>> resolve(asio::ip::tcp::resolver& resolver,
                                                              Endpoint endpoint);

}  // namespace causeway::inter
