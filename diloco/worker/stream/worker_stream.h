// One end of a worker's session, without blocking: frames with descriptors over a Unix socket
// (frame.h), or the same frames over mutual TLS to another host (worker_tls_stream.h).
// What is above sees no difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "diloco/worker/stream/frame.h"

namespace causeway::diloco {

class WorkerStream {
 public:
  virtual ~WorkerStream() = default;

  // Takes what is there; false: the other side closed. Throws Errc::malformed for bytes that are
  // none of ours, Errc::coordinator_lost for a connection that broke; the frames before come first.
  virtual bool receive() = 0;
  // receive() has more to take at once, without waiting for the socket.
  virtual bool more() const { return false; }
  virtual std::optional<Frame> next() = 0;

  virtual void add(Frame frame) = 0;
  // Writes what the socket takes; true when nothing is left. Throws Errc::coordinator_lost if the
  // other side is gone, and errno if the bytes behind a descriptor cannot be read.
  virtual bool flush() = 0;
  virtual bool empty() const = 0;
  virtual std::uint64_t sent_bytes() const = 0;  // so far: progress
  // Tells the other side that nothing follows, where closing the socket does not.
  virtual void end() {}
};

// Views the socket, which is not blocking and outlives it.
std::unique_ptr<WorkerStream> make_unix_stream(int socket);

}  // namespace causeway::diloco
