#include "inter/mesh/connection.h"

#include <asio/generic/stream_protocol.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "inter/base/async.h"
#include "inter/base/limits.h"
#include "inter/tls/tls_stream.h"

namespace causeway::inter {
namespace {

using asio::ip::tcp;
using Socket = asio::generic::stream_protocol::socket;

// What one connection may move before others get their turn.
constexpr std::size_t kTurnBytes = 64U << 10;

}  // namespace

struct Connection::Implementation {
  Implementation(Socket socket_in, const ConnectionSettings& settings_in)
      : settings(settings_in), socket(std::move(socket_in)), parser(settings.message_bytes_max) {}
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  ~Implementation() { count(); }

  void on_connected(const tcp::endpoint& to) {
    remote = to;
    remote_text = to_text(remote);
    const int handle = socket.native_handle();
    tune(handle, settings.user_timeout);
    if (!settings.congestion_control.empty())
      set_congestion_control(handle, settings.congestion_control);
    std::error_code ignored;
    socket.native_non_blocking(true, ignored);
  }

  void count() {
    if (!stream) return;
    const std::uint64_t rx_bytes = stream->read_bytes();
    const std::uint64_t tx_bytes = stream->written_bytes();
    if (rx_bytes != counted.rx_bytes) last_received = last_progress = Clock::now();
    traffic->rx_bytes += rx_bytes - counted.rx_bytes;
    traffic->tx_bytes += tx_bytes - counted.tx_bytes;
    counted = {tx_bytes, rx_bytes};
  }

  void check_open() const {
    if (closed) throw LinkError(close_code, close_reason);
  }

  // Takes a step of the stream to its end; gives how many bytes it moved.
  template <typename Operation>
  asio::awaitable<std::size_t> perform(Operation operation) {
    for (;;) {
      check_open();
      const TlsStream::Step step = operation(*stream);
      count();
      switch (step.outcome) {
        case TlsStream::Outcome::done:
          co_await take_turn(step.bytes);
          co_return step.bytes;
        case TlsStream::Outcome::ended:
          throw LinkError(std::make_error_code(std::errc::connection_aborted),
                          parser.inside_frame()
                              ? "the peer closed the connection in the middle of a frame"
                              : "the peer closed the connection");
        case TlsStream::Outcome::wants_reading:
          co_await ready(Socket::wait_read);
          break;
        case TlsStream::Outcome::wants_writing:
          co_await ready(Socket::wait_write);
          break;
      }
    }
  }

  // Until the socket is, or close().
  asio::awaitable<void> ready(Socket::wait_type what) {
    std::error_code error;
    co_await socket.async_wait(what, asio::redirect_error(asio::use_awaitable, error));
    turn_bytes = 0;
    if (error && !closed) throw LinkError(error, error.message());
  }

  asio::awaitable<void> take_turn(std::size_t bytes) {
    turn_bytes += bytes;
    if (turn_bytes >= kTurnBytes) {
      turn_bytes = 0;
      co_await asio::post(socket.get_executor(), asio::use_awaitable);
    }
  }

  ConnectionSettings settings;
  TlsContext context;
  Socket socket;
  std::unique_ptr<TlsStream> stream;  // once connected
  FrameParser parser;
  std::size_t turn_bytes = 0;  // since others last had their turn
  tcp::endpoint remote;
  std::string remote_text = "unconnected";
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

Connection::Connection(tcp::socket socket, const TlsContext& context,
                       const ConnectionSettings& settings)
    : implementation_(std::make_unique<Implementation>(std::move(socket), settings)) {
  implementation_->context = context;
}

Connection::Connection(tcp::socket socket, std::unique_ptr<TlsStream> stream,
                       const ConnectionSettings& settings) {
  std::error_code gone;  // shows when it is read
  const tcp::endpoint remote = socket.remote_endpoint(gone);
  implementation_ = std::make_unique<Implementation>(std::move(socket), settings);
  Implementation& self = *implementation_;
  self.on_connected(remote);
  self.stream = std::move(stream);
  self.handshaken = true;
}

Connection::Connection(asio::local::stream_protocol::socket socket, const std::string& name,
                       const TlsContext& context, TlsRole role, const ConnectionSettings& settings)
    : implementation_(std::make_unique<Implementation>(std::move(socket), settings)) {
  Implementation& self = *implementation_;
  self.remote_text = name;
  std::error_code ignored;
  self.socket.native_non_blocking(true, ignored);
  self.stream =
      std::make_unique<TlsStream>(make_socket_bio(self.socket.native_handle()), context, role);
}

Connection::~Connection() = default;

asio::awaitable<void> Connection::connect(tcp::endpoint endpoint) {
  Implementation& self = *implementation_;
  self.remote_text = to_text(endpoint);
  std::error_code error;
  co_await self.socket.async_connect(endpoint, asio::redirect_error(asio::use_awaitable, error));
  check_open();
  if (error) throw LinkError(error, error.message());
  self.on_connected(endpoint);
  self.stream = std::make_unique<TlsStream>(make_socket_bio(self.socket.native_handle()),
                                            self.context, TlsRole::client);
}

asio::awaitable<std::string> Connection::handshake() {
  Implementation& self = *implementation_;
  co_await self.perform([](TlsStream& stream) { return stream.handshake(); });
  self.handshaken = true;
  co_return self.stream->peer_region();
}

asio::awaitable<FrameView> Connection::read() {
  Implementation& self = *implementation_;
  for (;;) {
    check_open();  // frames may be waiting that arrived before close()
    if (const auto frame = self.parser.next()) co_return *frame;
    const auto space = self.parser.writable();
    const std::size_t size =
        co_await self.perform([space](TlsStream& stream) { return stream.read(space); });
    self.parser.received(size);
  }
}

asio::awaitable<void> Connection::write(std::span<const std::byte> frame) {
  Implementation& self = *implementation_;
  const bool one_record = frame.size() <= SSL3_RT_MAX_PLAIN_LENGTH;
  self.stream->gather(one_record ? 0 : kGatheredBytes);
  while (!frame.empty()) {
    const std::size_t size =
        co_await self.perform([frame](TlsStream& stream) { return stream.write(frame); });
    frame = frame.subspan(size);
  }
  co_await self.perform([](TlsStream& stream) { return stream.flush(); });
}

asio::awaitable<void> Connection::linger() {
  Implementation& self = *implementation_;
  self.stream->end();
  co_await end_politely(self.socket);
  close(Errc::refused, "refused");
}

void Connection::check_revocation(const TlsContext& context) {
  const Implementation& self = *implementation_;
  if (self.handshaken && !self.closed && self.stream->is_revoked(context))
    close(Errc::refused, "the peer's certificate was revoked");
}

void Connection::close(std::error_code code, const std::string& reason) {
  Implementation& self = *implementation_;
  if (self.closed) return;
  self.closed = true;
  self.close_code = code;
  self.close_reason = reason;
  if (self.stream) self.stream->end();
  std::error_code ignored;
  self.socket.close(ignored);
}

void Connection::abort(std::error_code code, const std::string& reason) {
  if (!is_closed()) inter::discard_unsent(implementation_->socket.native_handle());
  close(code, reason);
}

bool Connection::is_closed() const {
  return implementation_->closed;
}

const std::string& Connection::close_reason() const {
  return implementation_->close_reason;
}

void Connection::check_open() const {
  implementation_->check_open();
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

std::uint64_t Connection::received_bytes() const {
  return implementation_->counted.rx_bytes;
}

std::uint64_t Connection::acked_bytes() const {
  return implementation_->acked_bytes;
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
