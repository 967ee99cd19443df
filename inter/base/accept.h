// A loop that accepts connections, whatever happens to one of them, and how one is ended. Internal
// to inter and to who listens like it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include "inter/base/retry.h"

namespace causeway::inter {

std::string to_text(const asio::ip::tcp::endpoint& endpoint);  // address and port, for logs

// Says that nothing follows, and discards what still arrives until the peer closes, so that what
// was sent before is not lost to a reset. Ends too when the socket is closed.
template <typename Socket>
asio::awaitable<void> end_politely(Socket& socket) {
  std::error_code error;
  socket.shutdown(Socket::shutdown_send, error);
  std::array<std::byte, 4096> discarded;
  while (!error && socket.is_open()) {
    co_await socket.async_read_some(asio::buffer(discarded),
                                    asio::redirect_error(asio::use_awaitable, error));
  }
}

constexpr std::chrono::milliseconds kAcceptRetry{100};

void log_cannot_accept(const std::string& where, const std::error_code& error, LogThrottle& log);

// Hands every connection to serve(socket), until the acceptor is closed. A failure is logged with
// `where` and tried again after a pause: most likely the process is out of file descriptors, which
// only time can mend. `acceptor` and `serve` outlive it.
template <typename Acceptor, typename Serve>
asio::awaitable<void> accept_all(Acceptor& acceptor, std::string where, Serve& serve,
                                 std::chrono::milliseconds pause = kAcceptRetry) {
  LogThrottle log;
  asio::steady_timer retry(acceptor.get_executor());
  while (acceptor.is_open()) {
    std::error_code error;
    typename Acceptor::protocol_type::socket socket(acceptor.get_executor());
    co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, error));
    if (!acceptor.is_open()) {
      co_return;
    }
    if (!error) {
      serve(std::move(socket));
      continue;
    }
    log_cannot_accept(where, error, log);
    retry.expires_after(pause);
    co_await retry.async_wait(asio::redirect_error(asio::use_awaitable, error));
  }
}

}  // namespace causeway::inter
