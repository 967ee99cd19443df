#include "inter/connection.h"

#include <asio/buffer.hpp>
#include <asio/redirect_error.hpp>
#include <asio/ssl.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

namespace causeway::inter {
namespace {

using asio::ip::tcp;

std::string describe(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + address + "]" : address) + ":" +
         std::to_string(endpoint.port());
}

constexpr unsigned kUnsentBulkBytes = 128U << 10;

// asio::ssl::context frees what it is given, so it gets a reference of its own.
asio::ssl::context share(const TlsContext& context) {
  SSL_CTX_up_ref(context.get());
  return asio::ssl::context(context.get());
}

}  // namespace

struct Connection::Implementation {
  Implementation(tcp::socket socket, const TlsContext& context, TlsRole role_in,
                 const ConnectionSettings& settings_in)
      : settings(settings_in),
        role(role_in),
        tls_context(share(context)),
        stream(std::move(socket), tls_context),
        parser(settings.message_bytes_max) {
    remember_refused_subject(stream.native_handle(), &refused_subject);
    std::error_code not_connected;
    remote = stream.next_layer().remote_endpoint(not_connected);
    if (!not_connected) {
      on_connected();
    }
  }

  void on_connected() {
    remote_text = describe(remote);
    const int socket = stream.next_layer().native_handle();
    tune(socket, settings.user_timeout);
    if (!settings.congestion_control.empty()) {
      set_congestion_control(socket, settings.congestion_control);
    }
    congestion_control = inter::congestion_control(socket);
  }

  // OpenSSL's end of the byte stream counts what asio carries to and from the socket.
  void count() {
    BIO* bio = SSL_get_rbio(stream.native_handle());
    const std::uint64_t rx_bytes = BIO_number_read(bio);
    const std::uint64_t tx_bytes = BIO_number_written(bio);
    const auto now = Clock::now();
    if (rx_bytes != counted.rx_bytes) {
      last_received = last_progress = now;
    }
    traffic->rx_bytes += rx_bytes - counted.rx_bytes;
    traffic->tx_bytes += tx_bytes - counted.tx_bytes;
    counted = {tx_bytes, rx_bytes};
  }

  LinkError failure(const std::error_code& error) const {
    if (closed) {
      return {close_code, close_reason};
    }
    if (error.category() == asio::error::get_ssl_category()) {
      return describe_tls_failure(const_cast<Implementation*>(this)->stream.native_handle(),
                                  static_cast<unsigned int>(error.value()));
    }
    if (error == asio::error::eof || error == asio::ssl::error::stream_truncated) {
      return {error, handshaken ? "the peer closed the connection"
                                : "the peer closed the connection during the TLS handshake"};
    }
    return {error, error.message()};
  }

  ConnectionSettings settings;
  TlsRole role;
  asio::ssl::context tls_context;
  asio::ssl::stream<tcp::socket> stream;
  FrameParser parser;
  tcp::endpoint remote;
  std::string remote_text = "unconnected";
  std::string congestion_control;
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
  co_await self.stream.next_layer().async_connect(endpoint,
                                                  asio::redirect_error(asio::use_awaitable, error));
  if (error || self.closed) {
    throw self.failure(error);
  }
  self.on_connected();
}

asio::awaitable<std::string> Connection::handshake() {
  Implementation& self = *implementation_;
  std::error_code error;
  co_await self.stream.async_handshake(self.role == TlsRole::client
                                           ? asio::ssl::stream_base::client
                                           : asio::ssl::stream_base::server,
                                       asio::redirect_error(asio::use_awaitable, error));
  self.count();
  if (error || self.closed) {
    throw self.failure(error);
  }
  self.handshaken = true;
  co_return peer_region(self.stream.native_handle());
}

asio::awaitable<FrameView> Connection::read() {
  Implementation& self = *implementation_;
  for (;;) {
    check_open();  // frames may be waiting that arrived before close()
    if (const auto frame = self.parser.next()) {
      co_return *frame;
    }
    const auto space = self.parser.writable();
    std::error_code error;
    const std::size_t size = co_await self.stream.async_read_some(
        asio::buffer(space.data(), space.size()), asio::redirect_error(asio::use_awaitable, error));
    self.count();
    if (error || self.closed) {
      throw self.failure(error);
    }
    self.parser.received(size);
  }
}

asio::awaitable<void> Connection::write(std::span<const std::byte> frame) {
  Implementation& self = *implementation_;
  while (!frame.empty()) {
    std::error_code error;
    const std::size_t size = co_await self.stream.async_write_some(
        asio::buffer(frame.data(), frame.size()), asio::redirect_error(asio::use_awaitable, error));
    self.count();
    if (error || self.closed) {
      throw self.failure(error);
    }
    frame = frame.subspan(size);
  }
}

asio::awaitable<void> Connection::linger() {
  Implementation& self = *implementation_;
  std::error_code error;
  self.stream.next_layer().shutdown(tcp::socket::shutdown_send, error);
  Bytes discarded(4096);
  while (!error && !self.closed) {
    co_await self.stream.next_layer().async_read_some(
        asio::buffer(discarded), asio::redirect_error(asio::use_awaitable, error));
  }
  close(Errc::refused, "refused");
}

void Connection::check_revocation(const TlsContext& context) {
  const Implementation& self = *implementation_;
  if (self.handshaken && !self.closed &&
      is_revoked(implementation_->stream.native_handle(), context.get())) {
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
  self.stream.next_layer().close(ignored);
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

bool Connection::inside_frame() const {
  return implementation_->parser.inside_frame();
}

Connection::Clock::time_point Connection::last_received() const {
  return implementation_->last_received;
}

Connection::Clock::time_point Connection::last_progress() const {
  return implementation_->last_progress;
}

const std::string& Connection::congestion_control() const {
  return implementation_->congestion_control;
}

void Connection::carry_bulk() {
  limit_unsent(implementation_->stream.next_layer().native_handle(), kUnsentBulkBytes);
}

void Connection::limit_rate(std::uint64_t bytes_per_s) {
  set_pacing_rate(implementation_->stream.next_layer().native_handle(), bytes_per_s);
}

std::optional<TcpFigures> Connection::look() {
  Implementation& self = *implementation_;
  const auto figures = tcp_figures(self.stream.next_layer().native_handle());
  if (figures && figures->acked_bytes != self.acked_bytes) {
    self.acked_bytes = figures->acked_bytes;
    self.last_progress = Clock::now();
  }
  return figures;
}

}  // namespace causeway::inter
