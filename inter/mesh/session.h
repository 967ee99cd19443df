// A peer that is up: the control connection, any number of data connections beside it (none where a
// third region carries it), and the coroutines that serve them. The session lives and dies with the
// control connection; data connections come and go, and what one of them loses the others carry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "inter/base/async.h"
#include "inter/base/limits.h"
#include "inter/blob/blob_receiver.h"
#include "inter/blob/blob_sender.h"
#include "inter/frame/frame.h"
#include "inter/mesh/connection.h"
#include "inter/mesh/data_connections.h"
#include "inter/mesh/mesh.h"
#include "inter/mesh/pings.h"
#include "inter/route/link_meter.h"
#include "inter/route/router.h"

namespace causeway::inter {

// Control frames on their way to a peer.
class ControlQueue {
 public:
  explicit ControlQueue(std::uint32_t message_bytes_max)
      : bytes_max_(kQueuedMessagesMax * (kFrameHeaderBytes + message_bytes_max) +
                   kQueuedFramesBytes) {}

  void add(Bytes frame) {
    bytes_ += frame.size();
    frames_.push_back(std::move(frame));
  }
  // The oldest frame, with as many of the next ones as one TLS record holds.
  Bytes take() {
    Bytes together;
    do {
      const Bytes& frame = frames_.front();
      together.insert(together.end(), frame.begin(), frame.end());
      frames_.pop_front();
    } while (!frames_.empty() && together.size() + frames_.front().size() <= kRecordBytes);
    bytes_ -= together.size();
    return together;
  }

  // Of what waits, the messages are forgotten.
  void forget_messages() {
    std::erase_if(frames_, [this](const Bytes& frame) {
      const bool message = static_cast<FrameType>(frame[kFrameTypeAt]) == FrameType::message;
      if (message) bytes_ -= frame.size();
      return message;
    });
  }

  bool empty() const { return frames_.empty(); }
  std::size_t bytes() const { return bytes_; }
  bool takes_relayed() const { return bytes_ < bytes_max_ / 2; }  // or it keeps that for others
  bool is_too_long() const { return bytes_ > bytes_max_; }        // the peer does not read

 private:
  static constexpr std::size_t kRecordBytes = 16U << 10;

  std::size_t bytes_max_;
  std::deque<Bytes> frames_;
  std::size_t bytes_ = 0;
};

// What a session shares with the mesh. All of it outlives the session's open state.
struct SessionContext {
  asio::any_io_executor executor;
  const MeshOptions& options;
  MeshHandler& handler;
  std::shared_ptr<Intake> intake;
  std::string peer;
  BlobSender& outgoing;
  LinkMeter& meter;
  Router& router;
  bool restarts;                                      // our TCP begins anew after every pause
  std::string via;                                    // whose links carry it; empty: its own
  std::function<void(const BlobPass& pass)> pass_on;  // the peer asks for it
  std::function<void(const Neighbours& neighbours)> on_neighbours;
  std::function<void(FrameType type, const Relay& relay)> on_relay;  // relay, relayed
  // The peer's messages come over this link again; those by this detour are over.
  std::function<void(std::uint64_t detour)> on_messages_here;
  // At every heartbeat: how long an answer is waited for, or how long the last one took.
  std::function<void(std::chrono::steady_clock::duration delay)> on_answers;
};

class Session {
 public:
  using Self = std::shared_ptr<Session>;

  Session(SessionContext context, std::shared_ptr<Connection> control, const SessionNonce& nonce);

  // Serves the control connection until close(), a failure or a missed deadline; gives the reason.
  // `self` keeps it alive.
  static asio::awaitable<std::string> run(Self self);

  // Serves one data connection until it or the session ends; gives the reason.
  static asio::awaitable<std::string> serve_data(Self self, std::shared_ptr<Connection> data);

  // After this the handler and the spool are not touched any more.
  void close(std::error_code code, const std::string& reason);
  bool is_closed() const { return closed_; }

  void send(const std::string& message);
  // From now on it carries no messages: they go by that detour, and what still comes here is old.
  void mute(std::uint64_t detour);
  // It carries them again, and tells the peer. What comes is old until the peer has said the same.
  void unmute();
  std::uint64_t last_detour() const { return detour_; }  // beside it; 0: there was none
  bool was_left(std::uint64_t detour) const { return detour == left_; }  // by the peer, lately
  void fetch(const BlobId& id);
  void forgo(const BlobId& id);
  void pass(const BlobPass& pass);  // asks the peer to push a blob on
  void tell(const Neighbours& neighbours);
  // Of a connection by way of a third region, which one of the two ends is.
  void relay(FrameType type, const Relay& relay);
  bool takes_relayed() const { return control_queue_.takes_relayed(); }
  asio::awaitable<void> wait_for_room();  // for what is relayed; also until it is closed
  void wake_data();                       // after something was queued in `outgoing`
  void begin_push(bool first);            // the same, when a blob was; the first after a pause?

  // Ends early when the session does.
  asio::awaitable<void> wait(std::chrono::milliseconds delay);

  const std::string& via() const { return context_.via; }
  const SessionNonce& nonce() const { return nonce_; }
  const std::string& remote() const { return control_->remote(); }  // for logs
  std::size_t data_connections() const { return data_.size(); }

 private:
  using Clock = Connection::Clock;

  static asio::awaitable<void> guard(Self self, asio::awaitable<void> loop);
  static asio::awaitable<void> guard_data(Self self, std::shared_ptr<Connection> data,
                                          asio::awaitable<void> loop);
  asio::awaitable<void> read_control();
  asio::awaitable<void> write_control();
  asio::awaitable<void> read_data(std::shared_ptr<Connection> data);
  asio::awaitable<void> write_data(std::shared_ptr<Connection> data, ConnectionNumber number);
  asio::awaitable<void> watch();
  asio::awaitable<void> sample_bursts();

  void on_control(const FrameView& frame);
  void on_fetch(const BlobFetch& fetch);
  void on_ack(const BlobAck& ack);
  void on_pong(std::uint64_t number);
  void on_messages_here(std::uint64_t detour);
  void queue_control(Bytes frame);
  void queue_offers();
  void report_links();
  void check_deadlines();
  void check_control(Clock::time_point now);
  std::string in_flight() const;

  SessionContext context_;
  std::shared_ptr<Connection> control_;
  SessionNonce nonce_;
  DataConnections data_;
  BlobReceiver incoming_;
  ControlQueue control_queue_;
  Signal control_wake_;
  Signal control_room_;
  Signal data_wake_;
  Signal burst_wake_;
  asio::steady_timer heartbeat_;
  std::set<asio::steady_timer*> waits_;
  bool closed_ = false;
  std::uint64_t detour_ = 0;
  std::uint64_t left_ = 0;  // the last detour that the peer said to have left
  bool hears_messages_ = true;
  std::string reason_;

  Pings pings_;
  unsigned heartbeats_ = 0;
  Clock::time_point last_look_;  // at the deadlines
};

}  // namespace causeway::inter
