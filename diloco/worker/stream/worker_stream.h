// One end of a worker's session, without blocking: frames with descriptors over a Unix socket
// (frame.h), or the same frames over mutual TLS to another host (worker_stream.h).
// What is above sees no difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "diloco/worker/stream/frame.h"
#include "diloco/worker/stream/stream_parser.h"
#include "inter/tls/tls_stream.h"

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

// A worker's session with a coordinator on another host: frames over mutual TLS. The bytes behind a
// descriptor follow their frame, and arrive as a sealed memfd.

// Over a connected socket, which is told to notice a host that is gone within two minutes, be it
// idle or not. Views it: it is not blocking and outlives the stream.
class WorkerTlsStream : public WorkerStream {
 public:
  WorkerTlsStream(int socket, const inter::TlsContext& context, inter::TlsRole role);
  // The same over a TLS stream of that socket, after its handshake.
  WorkerTlsStream(int socket, std::unique_ptr<inter::TlsStream> tls);

  // First, until it is done. Throws inter::LinkError with the reason.
  inter::TlsStream::Outcome handshake();
  // After it: the region that the peer's certificate is for. Throws inter::LinkError.
  std::string peer_region() const { return tls_->peer_region(); }

  // Throws inter::LinkError too, if our certificate is refused.
  bool receive() override;
  bool more() const override { return more_; }
  std::optional<Frame> next() override { return parser_.next(); }
  void add(Frame frame) override { pieces_.add(std::move(frame)); }
  bool flush() override;
  bool empty() const override { return pieces_.empty(); }
  std::uint64_t sent_bytes() const override { return sent_bytes_; }
  void end() override { tls_->end(); }

 private:
  std::optional<bool> take(std::size_t& taken);
  bool end_of_frames() const;
  inter::TlsStream::Step write(std::span<const char> piece);

  std::unique_ptr<inter::TlsStream> tls_;
  StreamParser parser_;
  FramePieces pieces_;
  std::uint64_t sent_bytes_ = 0;
  bool more_ = false;
  std::optional<inter::LinkError> broken_;  // why nothing more will be received
};

}  // namespace causeway::diloco
