// One relayed TCP connection: two sockets and, per direction, what is under way on its link.
//
//   dialler ──read──► buffer ──forward link──► write──► upstream      and the same backwards
//
// 1. The dialler connects to the relay at once, but nothing is read from it for one round trip (SYN
//    and SYN-ACK). The upstream is dialled when the SYN would arrive, and nothing is read from it
//    until the dialler's ACK would.
// 2. Bytes read are offered to the link and wait in the buffer; when the link says that they
//    arrived, they are written. When a window's worth is read and not yet written, reading stops:
//    back-pressure.
// 3. An end of stream travels the link behind the bytes, and closes one half. A reset travels
//    likewise, and closes both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <system_error>

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "wan-sim/byte_queue.h"
#include "wan-sim/link.h"
#include "wan-sim/relay.h"

namespace causeway::wan_sim {

// Not by destroying it: Asio's destructor undoes the option that makes closing a reset.
void close_with_reset(asio::ip::tcp::socket& socket);

// The handlers of its operations keep it alive, so that its buffers outlive the kernel's use of
// them.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::ip::tcp::socket dialler, std::shared_ptr<Link> forward,
             std::shared_ptr<Link> backward, std::uint64_t key);

  // `on_closed` is called at most once, never from inside start or reset.
  void start(Relay::Upstream upstream, std::function<void()> on_closed);
  void reset();  // both ends get a reset now, not at the link's pace

 private:
  struct Pipe {
    asio::ip::tcp::socket& source;
    asio::ip::tcp::socket& sink;
    std::shared_ptr<Link> link;
    std::uint64_t flow = 0;
    ByteQueue buffer{};               // read, and not yet written
    std::uint64_t arrived_bytes = 0;  // of those, how many may be written
    Ending arrived_ending = Ending::none;
    bool reading = false;
    bool writing = false;
    bool source_ended = false;
    bool reset_sent = false;
    bool done = false;  // the sink's half is closed
  };

  asio::awaitable<void> establish(Relay::Upstream upstream);
  asio::awaitable<void> wait_until(Time time);
  asio::awaitable<bool> dial(const Relay::Upstream& upstream);
  void read(Pipe& pipe);
  void on_read(Pipe& pipe, std::error_code error, std::size_t bytes);
  void send_reset(Pipe& pipe);
  void on_arrival(Pipe& pipe, const Arrival& arrival);
  void write(Pipe& pipe);
  void on_written(Pipe& pipe, std::error_code error, std::size_t bytes);
  void deliver_ending(Pipe& pipe);
  void finish();
  void close();

  asio::ip::tcp::socket dialler_;
  asio::ip::tcp::socket upstream_;
  asio::steady_timer timer_;
  Pipe forward_;
  Pipe backward_;
  std::function<void()> on_closed_;
  bool closed_ = false;
};

}  // namespace causeway::wan_sim
