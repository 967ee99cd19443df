#include "inter/base/accept.h"

#include <spdlog/spdlog.h>

#include <array>
#include <cstddef>

#include <asio/buffer.hpp>

namespace causeway::inter {

void log_cannot_accept(const std::string& where, const std::error_code& error, LogThrottle& log) {
  if (const auto more = log.note(error.message())) {
    spdlog::error("{}: cannot accept: {}{}", where, error.message(), *more);
  }
}

std::string to_text(const asio::ip::tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + address + "]" : address) + ":" +
         std::to_string(endpoint.port());
}

asio::awaitable<void> end_politely(asio::ip::tcp::socket& socket) {
  std::error_code error;
  socket.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  std::array<std::byte, 4096> discarded;
  while (!error && socket.is_open()) {
    co_await socket.async_read_some(asio::buffer(discarded),
                                    asio::redirect_error(asio::use_awaitable, error));
  }
}

}  // namespace causeway::inter
