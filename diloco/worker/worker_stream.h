// One end of a worker's session, without blocking: frames with descriptors over a Unix socket
// (worker_channel.h), or the same frames over mutual TLS to another host. There the bytes behind a
// descriptor follow the frame, and arrive as a sealed memfd: what is above sees no difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "diloco/worker/worker_channel.h"
#include "inter/tls/tls.h"

namespace causeway::diloco {

class WorkerStream {
 public:
  virtual ~WorkerStream() = default;

  // Takes what is there; false: the other side closed. Throws Errc::malformed for bytes that are
  // none of ours, Errc::coordinator_lost for a connection that broke.
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
};

// Both view the socket, which is not blocking and outlives them.
std::unique_ptr<WorkerStream> make_unix_stream(int socket);

// TLS over a connected socket, which is told to notice a host that is gone within two minutes, be
// it idle or not. Over it, handshake() comes first.
class TlsStream : public WorkerStream {
 public:
  TlsStream(int socket, const inter::TlsContext& context, inter::TlsRole role);
  ~TlsStream() override;

  // What to wait for before the next call; nothing: done. Throws inter::LinkError with the reason.
  enum class Needs { nothing, reading, writing };
  Needs handshake();
  // After it: the region that the peer's certificate is for. Throws inter::LinkError.
  std::string peer_region() const;

  bool receive() override;
  bool more() const override;
  std::optional<Frame> next() override;
  void add(Frame frame) override;
  bool flush() override;
  bool empty() const override;
  std::uint64_t sent_bytes() const override;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::diloco
