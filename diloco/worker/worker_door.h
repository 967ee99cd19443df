// Where workers on other hosts knock: TCP, then TLS with the region's own certificate. Credentials
// and revocations that were replaced count from the next knock on; who is attached stays.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/generic/stream_protocol.hpp>

#include "diloco/worker/stream/worker_stream.h"
#include "inter/mesh/mesh.h"
#include "inter/tls/pki.h"

namespace causeway::diloco {

class WorkerDoor {
 public:
  using Socket = asio::generic::stream_protocol::socket;
  // A connection whose certificate is the run's. `forbidden`: why it may not attach; empty: it may.
  using Admit =
      std::function<void(Socket socket, std::unique_ptr<WorkerStream>, std::string forbidden)>;

  // Listens. Throws std::system_error naming what cannot be used.
  WorkerDoor(asio::any_io_executor executor, std::string region, const inter::Endpoint& bind,
             const inter::Credentials& credentials, Admit admit);
  ~WorkerDoor();

  std::uint16_t port() const;
  void start();
  // Nobody is admitted from here on.
  void close();
  asio::awaitable<void> join();

 private:
  class Implementation;
  std::shared_ptr<Implementation> implementation_;
};

}  // namespace causeway::diloco
