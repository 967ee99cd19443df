// A worker's end of its connection with the coordinator: messages out, answers in. Blocking calls,
// one thread, every wait with a deadline or a progress callback.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "diloco/worker/stream/frame.h"
#include "diloco/worker/stream/worker_stream.h"
#include "diloco/worker/worker.pb.h"
#include "diloco/worker/worker_session.h"

namespace causeway::diloco {

// How a worker reaches its coordinator.
struct WorkerDial {
  Descriptor socket;
  std::unique_ptr<WorkerStream> stream;  // views the socket
};

struct Unreached {
  std::string problem = {};      // why nobody is reached, if somebody has to see to that
  bool took_connection = false;  // somebody does, but no TLS handshake follows
};

// Over the Unix socket, or over TLS if the request names a coordinator on another host. Nothing:
// nobody answers there (yet). Throws std::system_error for an address or a certificate that cannot
// be used, or a coordinator of another region. `meanwhile` is called at least every second; what it
// throws ends it. `small_segments`: over TLS, such as every path takes.
std::optional<WorkerDial> dial_coordinator(const AttachRequest& request,
                                           const std::function<void()>& meanwhile, Unreached& why,
                                           bool small_segments = false);

// Throws std::errc::operation_canceled if the caller does not keep waiting for it.
void keep_waiting_or_throw(const WorkerSession::KeepWaiting& keep_waiting, const std::string& what);

// While it is held, children that this process forks without exec (a data loader's workers) do not
// have the socket: else the coordinator would take a worker that died for one that is there, as
// long as one of its children lives.
std::shared_ptr<void> keep_from_children(int socket);

// What to do about it, once nobody has answered for long; empty before. Where the region's
// directory is not shared with the coordinator's host, nobody else may be left to say it.
std::string silence(std::chrono::steady_clock::duration lasts);

class CoordinatorLink {
 public:
  using Message = worker_wire::CoordinatorMessage;
  struct Received {
    Message message;
    std::vector<Descriptor> descriptors;
  };

  explicit CoordinatorLink(WorkerDial dialled)
      : socket_(std::move(dialled.socket)),
        own_(keep_from_children(socket_.get())),
        stream_(std::move(dialled.stream)) {}

  // All throw Errc::coordinator_lost if the connection ended, and what the coordinator's refusal is
  // about if it refuses us.
  void send(const worker_wire::WorkerMessage& message, std::vector<Descriptor> descriptors = {});
  // Nothing if no answer came in time.
  std::optional<Received> receive(std::chrono::milliseconds at_most);
  Received wait(const WorkerSession::KeepWaiting& keep_waiting);
  // An answer that is there.
  std::optional<Received> look();

  // Unless what was sent before is still on its way. Throws nothing: whoever must know finds out at
  // the next call that waits for an answer.
  void send_if_idle(const worker_wire::WorkerMessage& message);
  // Tells the coordinator that nothing follows.
  void end() { stream_->end(); }

  bool is_closed() const { return closed_; }  // by the coordinator, as far as it was looked at
  bool is_lost() const;
  bool has_heard() const { return heard_; }  // anything
  // From the order before; the next one makes it untrue.
  bool called_back() const { return called_back_; }
  void forget_call() { called_back_ = false; }
  // What to show while the coordinator says nothing else.
  void wait_for(const std::string& what) { waiting_for_ = what; }

 private:
  void wait_for_socket(short events, std::chrono::milliseconds at_most);
  bool flush();
  void hear_refusal();
  void receive_bytes();
  std::optional<Received> take();

  Descriptor socket_;
  std::shared_ptr<void> own_;             // this process's alone
  std::unique_ptr<WorkerStream> stream_;  // views the socket
  bool called_back_ = false;
  bool closed_ = false;
  bool heard_ = false;
  std::vector<Descriptor> payloads_;  // of the Apply that follows
  std::string waiting_for_;
};

}  // namespace causeway::diloco
