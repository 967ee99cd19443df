// A peer that is up: the two connections to it and the coroutines that serve them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include "inter/async.h"
#include "inter/connection.h"
#include "inter/mesh.h"
#include "inter/transfer.h"

namespace causeway::inter {

// What a session shares with the mesh. All of it outlives the session's open state.
struct SessionContext {
  asio::any_io_executor executor;
  const MeshOptions& options;
  Spool& spool;
  MeshHandler& handler;
  std::string peer;
  BlobSender& outgoing;
  std::chrono::microseconds& round_trip;
};

class Session {
 public:
  Session(SessionContext context, std::shared_ptr<Connection> control,
          std::shared_ptr<Connection> data);

  // Serves both connections until close(), a failure or a missed deadline; gives the reason. `self`
  // keeps it alive.
  static asio::awaitable<std::string> run(std::shared_ptr<Session> self);

  // After this the handler and the spool are not touched any more.
  void close(std::error_code code, const std::string& reason);

  void send(const std::string& message);
  void fetch(const BlobId& id);
  void wake_data() { data_wake_.notify(); }  // after something was queued in `outgoing`

 private:
  using Clock = Connection::Clock;
  using Self = std::shared_ptr<Session>;

  static asio::awaitable<void> guard(Self self, asio::awaitable<void> loop);
  asio::awaitable<void> read_control();
  asio::awaitable<void> read_data();
  asio::awaitable<void> write_control();
  asio::awaitable<void> write_data();
  asio::awaitable<void> watch();

  void on_control(const FrameView& frame);
  void on_data(const FrameView& frame);
  void on_chunk(const BlobChunk& chunk);
  void on_pong(std::uint64_t sequence);
  void reply(const BlobReceiver::Reply& reply);
  void queue_control(Bytes frame);
  void queue_data(Bytes frame);
  std::optional<Bytes> next_data_frame();
  void send_ping();
  void keep_alive();
  void check_deadlines();
  bool transferring() const;
  std::string in_flight() const;

  SessionContext context_;
  std::shared_ptr<Connection> control_;
  std::shared_ptr<Connection> data_;
  BlobReceiver incoming_;
  std::deque<Bytes> control_queue_;
  std::size_t control_queue_bytes_ = 0;
  std::deque<Bytes> data_queue_;  // replies; they go before chunks
  Signal control_wake_;
  Signal data_wake_;
  asio::steady_timer heartbeat_;
  bool closed_ = false;
  std::string reason_;

  std::uint64_t ping_sequence_ = 0;
  std::deque<std::pair<std::uint64_t, Clock::time_point>> pings_;  // unanswered
  Clock::time_point transfer_began_;      // when data was last seen without a transfer
  Clock::time_point last_look_;           // at the deadlines
  std::uint64_t data_rx_bytes_seen_ = 0;  // at the last heartbeat
  bool data_sent_ = false;                // since the last heartbeat
};

}  // namespace causeway::inter
