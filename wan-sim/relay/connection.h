// One relayed TCP connection: two sockets and, per direction, what is under way on its link.
//
//   dialler ──read──► buffer ──forward path──► write──► upstream      and the same backwards
//
// A path is the sending host's share of its rate, if the scenario gives it one, the link, and the
// receiving host's.
//
// 1. The dialler connects to the relay at once, but nothing is read from it for one round trip (SYN
//    and SYN-ACK), or longer where those are lost. The upstream is dialled when the SYN would
//    arrive, and nothing is read from it until the dialler's ACK would.
// 2. Bytes read are offered to the path and wait in the buffer; when the path says that they
//    arrived, they are written. When a window's worth is read and not yet written, reading stops:
//    back-pressure.
// 3. An end of stream travels the link behind the bytes, and closes one half. A reset travels
//    likewise, and closes both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <vector>

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "wan-sim/base/byte_queue.h"
#include "wan-sim/relay/link.h"
#include "wan-sim/relay/relay.h"

namespace causeway::wan_sim {

// Not by destroying it: Asio's destructor undoes the option that makes closing a reset.
void close_with_reset(asio::ip::tcp::socket& socket);

// The handlers of its operations keep it alive, so that its buffers outlive the kernel's use of
// them.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // Paths are not empty; `link` is the one whose figures and faults count.
  struct Path {
    std::vector<std::shared_ptr<Link>> stages;
    std::shared_ptr<Link> link;
  };
  Connection(asio::ip::tcp::socket dialler, Path forward, Path backward, std::uint64_t key);

  // `on_closed` is called at most once, never from inside start or reset.
  void start(Relay::Upstream upstream, std::function<void()> on_closed);
  void reset();  // both ends get a reset now, not at the link's pace

 private:
  // Bytes that wait in the source's socket, and are to be read.
  struct Unread {
    std::size_t bytes = 0;
    Time since{0};
  };
  struct Pipe {
    asio::ip::tcp::socket& source;
    asio::ip::tcp::socket& sink;
    Path path;
    asio::steady_timer slow_close;
    std::vector<std::uint64_t> flows{};  // one per stage
    ByteQueue buffer{};                  // read, and not yet written
    std::uint64_t arrived_bytes = 0;     // of those, how many may be written
    std::uint64_t delivered_bytes = 0;
    StreamEnd arrived_ending = StreamEnd::none;
    bool reading = false;
    std::optional<Unread> unread{};
    bool writing = false;
    bool source_ended = false;
    bool reset_sent = false;
    bool done = false;  // the sink's half is closed
  };

  struct Handshake {
    Time syn_arrives{0}, established{0}, accepted{0};
  };
  asio::awaitable<void> establish(Relay::Upstream upstream);
  std::optional<Handshake> handshake(Time now, std::uint64_t attempt);
  void add_flows(Pipe& pipe, std::uint64_t key);
  void on_stage(Pipe& pipe, std::size_t stage, const Arrival& arrival);
  std::uint64_t window_bytes(const Pipe& pipe) const;
  void end(Pipe& pipe, StreamEnd ending);
  asio::awaitable<void> wait_until(Time time);
  asio::awaitable<bool> dial(const Relay::Upstream& upstream);
  void read(Pipe& pipe);
  void on_read(Pipe& pipe, std::error_code error, std::size_t bytes);
  void send_finish(Pipe& pipe);
  void send_reset(Pipe& pipe);
  void on_arrival(Pipe& pipe, const Arrival& arrival);
  void write(Pipe& pipe);
  void on_written(Pipe& pipe, std::error_code error, std::size_t bytes);
  void deliver_ending(Pipe& pipe);
  void finish();
  void close();

  std::uint64_t key_;
  asio::ip::tcp::socket dialler_;
  asio::ip::tcp::socket upstream_;
  asio::steady_timer timer_;
  Pipe forward_;
  Pipe backward_;
  std::function<void()> on_closed_;
  bool closed_ = false;
};

}  // namespace causeway::wan_sim
