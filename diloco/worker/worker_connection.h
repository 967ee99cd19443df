// The coordinator's end of one worker's connection: frames that came, and those on their way out.
// One thread, the executor of the tasks given.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <asio/awaitable.hpp>
#include <asio/generic/stream_protocol.hpp>

#include "diloco/worker/stream/worker_stream.h"
#include "diloco/worker/worker.pb.h"
#include "inter/base/async.h"

namespace causeway::diloco {

class WorkerConnection : public std::enable_shared_from_this<WorkerConnection> {
 public:
  using Socket = asio::generic::stream_protocol::socket;

  // `tasks` outlives the open socket.
  WorkerConnection(inter::TaskGroup& tasks, Socket socket, std::unique_ptr<WorkerStream> stream);

  bool is_open() const { return socket_.is_open(); }
  void close();

  // Returns when bytes may be there; false: it was closed.
  asio::awaitable<bool> readable();
  // Takes what is there; false: the worker closed its end, or the connection broke. Throws
  // Errc::malformed for bytes that are none of ours.
  bool receive();
  std::optional<Frame> next() { return stream_->next(); }

  // What the socket takes is written now, the rest when it takes more. That the worker is gone
  // shows in receive(); when the bytes to send cannot be read, the connection is closed.
  void send(const worker_wire::CoordinatorMessage& message,
            std::vector<Descriptor> descriptors = {});
  // Nothing is to come after it, from either side.
  void send_last(const worker_wire::CoordinatorMessage& message);

 private:
  void flush();
  static asio::awaitable<void> flush_later(std::shared_ptr<WorkerConnection> self);

  inter::TaskGroup& tasks_;
  Socket socket_;
  std::unique_ptr<WorkerStream> stream_;
  bool writing_ = false;  // flush_later() is under way
  bool last_sent_ = false;
};

}  // namespace causeway::diloco
