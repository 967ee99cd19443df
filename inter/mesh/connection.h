// One connection carrying frames under TLS 1.3: over TCP, or by way of a third region.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/local/stream_protocol.hpp>

#include "inter/base/error.h"
#include "inter/base/tcp.h"
#include "inter/frame/frame.h"
#include "inter/tls/tls.h"
#include "inter/tls/tls_stream.h"

namespace causeway::inter {

// Bytes at the socket: TLS handshakes and record overhead included.
struct Traffic {
  std::uint64_t tx_bytes = 0, rx_bytes = 0;
};

struct ConnectionSettings {
  std::uint32_t message_bytes_max = 0;
  std::chrono::milliseconds user_timeout{0};  // TCP gives up on unacknowledged bytes after this
  std::string congestion_control;             // empty: the kernel's default
};

// At most one coroutine reads and one writes at a time. Every wait ends when close() is called, so
// deadlines and owners close.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  // One that we dial: `socket` is still to be connected by connect(), then comes handshake().
  Connection(asio::ip::tcp::socket socket, const TlsContext& context,
             const ConnectionSettings& settings);
  // One that was accepted: `stream` is over `socket`, after its handshake.
  Connection(asio::ip::tcp::socket socket, std::unique_ptr<TlsStream> stream,
             const ConnectionSettings& settings);
  // One that a third region carries (detour.h), which logs call `name`: then comes handshake().
  Connection(asio::local::stream_protocol::socket socket, const std::string& name,
             const TlsContext& context, TlsRole role, const ConnectionSettings& settings);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // All throw LinkError, with the reason given to close() if that is what ended them.
  asio::awaitable<void> connect(asio::ip::tcp::endpoint endpoint);
  asio::awaitable<std::string> handshake();  // the region that the peer's certificate is for
  asio::awaitable<FrameView> read();         // valid until the next read
  asio::awaitable<void> write(std::span<const std::byte> frame);

  // After a refusal: says that we are done and discards what still arrives until the peer closes,
  // so that the reason, already sent, is not lost to a reset. Ends with close().
  asio::awaitable<void> linger();

  // Closes if the revocations that `context` knows list the peer's certificate.
  void check_revocation(const TlsContext& context);

  void close(std::error_code code, const std::string& reason);  // the first reason stays
  // Likewise, and what the socket has not delivered is not sent any more.
  void abort(std::error_code code, const std::string& reason);
  bool is_closed() const;
  const std::string& close_reason() const;  // once closed
  void check_open() const;                  // throws LinkError with the reason of close()

  // Where bytes are counted, those counted so far included.
  void count_into(std::shared_ptr<Traffic> traffic);

  const std::string& remote() const;  // address and port, for logs
  std::string remote_host() const;    // address alone
  asio::ip::tcp::endpoint remote_endpoint() const;
  bool inside_frame() const;  // a frame has arrived in part
  Clock::time_point last_received() const;
  Clock::time_point last_progress() const;  // bytes arrived, or the peer's kernel confirmed some
  std::uint64_t received_bytes() const;
  std::uint64_t acked_bytes() const;  // by the peer's kernel, as look() saw

  void limit_unsent(unsigned bytes);           // keeps little in the socket that is not under way
  void limit_rate(std::uint64_t bytes_per_s);  // of sending
  std::optional<TcpFigures> look();            // asks TCP, which also updates last_progress()

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::inter
