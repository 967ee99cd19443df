// How a worker reaches its coordinator.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "diloco/worker/stream/frame.h"
#include "diloco/worker/stream/worker_stream.h"
#include "diloco/worker/worker_session.h"

namespace causeway::diloco {

struct WorkerDial {
  Descriptor socket;
  std::unique_ptr<WorkerStream> stream;  // views the socket
};

// Over the Unix socket, or over TLS if the request names a coordinator on another host. Nothing:
// nobody answers there (yet). Throws std::system_error for what waiting does not mend: an address
// or a certificate that cannot be used, or a coordinator of another region. `meanwhile` is called
// at least every second; what it throws ends it. `problem`: why nobody is reached, if somebody has
// to see to that.
std::optional<WorkerDial> dial_coordinator(const AttachRequest& request,
                                           const std::function<void()>& meanwhile,
                                           std::string& problem);

}  // namespace causeway::diloco
