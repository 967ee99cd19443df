#include "inter/mesh/connection.h"

#include <cassert>
#include <cerrno>

#include <openssl/err.h>

#include <asio/buffer.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "inter/base/limits.h"
#include "inter/tls/socket_bio.h"

namespace causeway::inter {
namespace {

using asio::ip::tcp;

std::string describe(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + address + "]" : address) + ":" +
         std::to_string(endpoint.port());
}

// What one connection may move before others get their turn.
constexpr std::size_t kTurnBytes = 64U << 10;

}  // namespace

struct Connection::Implementation {
  Implementation(tcp::socket socket_in, const TlsContext& context, TlsRole role_in,
                 const ConnectionSettings& settings_in)
      : settings(settings_in),
        role(role_in),
        socket(std::move(socket_in)),
        ssl(SSL_new(context.get())),
        parser(settings.message_bytes_max) {
    assert(ssl);
    remember_refused_subject(ssl.get(), &refused_subject);
    role == TlsRole::client ? SSL_set_connect_state(ssl.get()) : SSL_set_accept_state(ssl.get());
    std::error_code not_connected;
    remote = socket.remote_endpoint(not_connected);
    if (!not_connected) {
      on_connected();
    }
  }

  void on_connected() {
    remote_text = describe(remote);
    const int handle = socket.native_handle();
    tune(handle, settings.user_timeout);
    if (!settings.congestion_control.empty()) {
      set_congestion_control(handle, settings.congestion_control);
    }
    std::error_code ignored;
    socket.native_non_blocking(true, ignored);
    BIO* const bio = make_socket_bio(handle).release();
    SSL_set_bio(ssl.get(), bio, bio);  // which owns it
  }

  void count() {
    BIO* bio = SSL_get_rbio(ssl.get());
    const std::uint64_t rx_bytes = BIO_number_read(bio);
    const std::uint64_t tx_bytes = BIO_number_written(bio);
    if (rx_bytes != counted.rx_bytes) {
      last_received = last_progress = Clock::now();
    }
    traffic->rx_bytes += rx_bytes - counted.rx_bytes;
    traffic->tx_bytes += tx_bytes - counted.tx_bytes;
    counted = {tx_bytes, rx_bytes};
  }

  // Runs an OpenSSL operation to its end; gives what it returned, which is positive.
  template <typename Operation>
  asio::awaitable<std::size_t> perform(Operation operation) {
    for (;;) {
      if (closed) {
        throw LinkError(close_code, close_reason);
      }
      ERR_clear_error();
      errno = 0;
      const int result = operation(ssl.get());
      const int system_error = errno;
      count();
      if (result > 0) {
        co_await take_turn(static_cast<std::size_t>(result));
        co_return static_cast<std::size_t>(result);
      }
      const int verdict = SSL_get_error(ssl.get(), result);
      if (verdict != SSL_ERROR_WANT_READ && verdict != SSL_ERROR_WANT_WRITE) {
        throw failure(verdict, system_error);
      }
      co_await ready(verdict == SSL_ERROR_WANT_READ ? tcp::socket::wait_read
                                                    : tcp::socket::wait_write);
    }
  }

  asio::awaitable<void> flush_gathered() {
    for (;;) {
      if (closed) {
        throw LinkError(close_code, close_reason);
      }
      errno = 0;
      if (flush(SSL_get_wbio(ssl.get()))) {
        co_return;
      }
      const int system_error = errno;
      if (system_error != EAGAIN && system_error != EWOULDBLOCK && system_error != EINTR) {
        throw failure(SSL_ERROR_SYSCALL, system_error);
      }
      co_await ready(tcp::socket::wait_write);
    }
  }

  // Until the socket is, or close().
  asio::awaitable<void> ready(tcp::socket::wait_type what) {
    std::error_code error;
    co_await socket.async_wait(what, asio::redirect_error(asio::use_awaitable, error));
    turn_bytes = 0;
    if (error && !closed) {
      throw LinkError(error, error.message());
    }
  }

  asio::awaitable<void> take_turn(std::size_t bytes) {
    turn_bytes += bytes;
    if (turn_bytes >= kTurnBytes) {
      turn_bytes = 0;
      co_await asio::post(socket.get_executor(), asio::use_awaitable);
    }
  }

  LinkError failure(int verdict, int system_error) const {
    const unsigned long error = ERR_peek_error();
    const bool cut_off = ERR_GET_LIB(error) == ERR_LIB_SSL &&
                         ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    if (verdict == SSL_ERROR_ZERO_RETURN || cut_off ||
        (verdict == SSL_ERROR_SYSCALL && system_error == 0)) {
      return {std::make_error_code(std::errc::connection_aborted),
              handshaken ? "the peer closed the connection"
                         : "the peer closed the connection during the TLS handshake"};
    }
    if (verdict == SSL_ERROR_SYSCALL) {
      const std::error_code code(system_error, std::system_category());
      return {code, code.message()};
    }
    return describe_tls_failure(ssl.get(), error);
  }

  ConnectionSettings settings;
  TlsRole role;
  tcp::socket socket;
  SslPtr ssl;
  FrameParser parser;
  std::size_t turn_bytes = 0;  // since others last had their turn
  tcp::endpoint remote;
  std::string remote_text = "unconnected";
  std::string refused_subject;
  bool handshaken = false;
  bool closed = false;
  std::error_code close_code;
  std::string close_reason;
  std::shared_ptr<Traffic> traffic = std::make_shared<Traffic>();
  Traffic counted;
  std::uint64_t acked_bytes = 0;  // as look() last saw it
  Clock::time_point last_received = Clock::now();
  Clock::time_point last_progress = Clock::now();
};

Connection::Connection(tcp::socket socket, const TlsContext& context, TlsRole role,
                       const ConnectionSettings& settings)
    : implementation_(
          std::make_unique<Implementation>(std::move(socket), context, role, settings)) {}

Connection::~Connection() = default;

asio::awaitable<void> Connection::connect(tcp::endpoint endpoint) {
  Implementation& self = *implementation_;
  self.remote = endpoint;
  self.remote_text = describe(endpoint);
  std::error_code error;
  co_await self.socket.async_connect(endpoint, asio::redirect_error(asio::use_awaitable, error));
  check_open();
  if (error) {
    throw LinkError(error, error.message());
  }
  self.on_connected();
}

asio::awaitable<std::string> Connection::handshake() {
  Implementation& self = *implementation_;
  co_await self.perform([](SSL* ssl) { return SSL_do_handshake(ssl); });
  self.handshaken = true;
  co_return peer_region(self.ssl.get());
}

asio::awaitable<FrameView> Connection::read() {
  Implementation& self = *implementation_;
  for (;;) {
    check_open();  // frames may be waiting that arrived before close()
    if (const auto frame = self.parser.next()) {
      co_return *frame;
    }
    const auto space = self.parser.writable();
    const std::size_t size = co_await self.perform(
        [space](SSL* ssl) { return SSL_read(ssl, space.data(), static_cast<int>(space.size())); });
    self.parser.received(size);
  }
}

asio::awaitable<void> Connection::write(std::span<const std::byte> frame) {
  Implementation& self = *implementation_;
  const bool one_record = frame.size() <= SSL3_RT_MAX_PLAIN_LENGTH;
  gather(SSL_get_wbio(self.ssl.get()), one_record ? 0 : kGatheredBytes);
  while (!frame.empty()) {
    const std::size_t size = co_await self.perform(
        [frame](SSL* ssl) { return SSL_write(ssl, frame.data(), static_cast<int>(frame.size())); });
    frame = frame.subspan(size);
  }
  co_await self.flush_gathered();
}

asio::awaitable<void> Connection::linger() {
  Implementation& self = *implementation_;
  std::error_code error;
  self.socket.shutdown(tcp::socket::shutdown_send, error);
  Bytes discarded(4096);
  while (!error && !self.closed) {
    co_await self.socket.async_read_some(asio::buffer(discarded),
                                         asio::redirect_error(asio::use_awaitable, error));
  }
  close(Errc::refused, "refused");
}

void Connection::check_revocation(const TlsContext& context) {
  const Implementation& self = *implementation_;
  if (self.handshaken && !self.closed && is_revoked(implementation_->ssl.get(), context.get())) {
    close(Errc::refused, "the peer's certificate was revoked");
  }
}

void Connection::close(std::error_code code, const std::string& reason) {
  Implementation& self = *implementation_;
  if (self.closed) {
    return;
  }
  self.closed = true;
  self.close_code = code;
  self.close_reason = reason;
  std::error_code ignored;
  self.socket.close(ignored);
}

bool Connection::is_closed() const {
  return implementation_->closed;
}

const std::string& Connection::close_reason() const {
  return implementation_->close_reason;
}

void Connection::check_open() const {
  if (implementation_->closed) {
    throw LinkError(implementation_->close_code, implementation_->close_reason);
  }
}

void Connection::count_into(std::shared_ptr<Traffic> traffic) {
  Implementation& self = *implementation_;
  traffic->tx_bytes += self.counted.tx_bytes;
  traffic->rx_bytes += self.counted.rx_bytes;
  self.traffic = std::move(traffic);
}

const std::string& Connection::remote() const {
  return implementation_->remote_text;
}

std::string Connection::remote_host() const {
  return implementation_->remote.address().to_string();
}

tcp::endpoint Connection::remote_endpoint() const {
  return implementation_->remote;
}

bool Connection::inside_frame() const {
  return implementation_->parser.inside_frame();
}

Connection::Clock::time_point Connection::last_received() const {
  return implementation_->last_received;
}

Connection::Clock::time_point Connection::last_progress() const {
  return implementation_->last_progress;
}

void Connection::limit_unsent(unsigned bytes) {
  inter::limit_unsent(implementation_->socket.native_handle(), bytes);
}

void Connection::limit_rate(std::uint64_t bytes_per_s) {
  set_pacing_rate(implementation_->socket.native_handle(), bytes_per_s);
}

std::optional<TcpFigures> Connection::look() {
  Implementation& self = *implementation_;
  const auto figures = tcp_figures(self.socket.native_handle());
  if (figures && figures->acked_bytes != self.acked_bytes) {
    self.acked_bytes = figures->acked_bytes;
    self.last_progress = Clock::now();
  }
  return figures;
}

}  // namespace causeway::inter
