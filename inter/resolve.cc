#include "inter/resolve.h"

#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "inter/link_error.h"

namespace causeway::inter {

using asio::ip::tcp;

asio::awaitable<std::vector<tcp::endpoint>> resolve(tcp::resolver& resolver, Endpoint endpoint) {
  std::error_code error;
  const auto address = asio::ip::make_address(endpoint.host, error);
  std::vector<tcp::endpoint> endpoints;
  if (!error) {
    endpoints.emplace_back(address, endpoint.port);
    co_return endpoints;
  }
  const auto found =
      co_await resolver.async_resolve(endpoint.host, std::to_string(endpoint.port),
                                      asio::redirect_error(asio::use_awaitable, error));
  if (error) {
    throw LinkError(error, "cannot look up " + endpoint.host + ": " + error.message());
  }
  for (const auto& entry : found) {
    endpoints.push_back(entry.endpoint());
  }
  co_return endpoints;
}

}  // namespace causeway::inter
