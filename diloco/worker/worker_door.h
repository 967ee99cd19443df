// Where workers on other hosts knock: TCP, then TLS with the region's own certificate (tls_door.h).
// Who is attached stays when credentials are replaced. One thread, that of the executor given.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <asio/any_io_executor.hpp>

#include "diloco/worker/rank_group.h"
#include "diloco/worker/stream/worker_stream.h"
#include "inter/base/retry.h"
#include "inter/door/tls_door.h"
#include "inter/mesh/mesh.h"
#include "inter/tls/pki.h"

namespace causeway::diloco {

class WorkerDoor {
 public:
  using Socket = WorkerConnection::Socket;
  // A connection whose certificate is the run's. `forbidden`: why it is to be turned away, before
  // it says anything; empty: its worker may attach.
  using Admit =
      std::function<void(Socket socket, std::unique_ptr<WorkerStream>, std::string forbidden)>;

  // Listens. Throws std::system_error naming what cannot be used.
  WorkerDoor(asio::any_io_executor executor, std::string region, const inter::Endpoint& bind,
             const inter::Credentials& credentials, Admit admit);
  std::uint16_t port() const { return door_.port(); }
  void start() { door_.start(); }
  void close() { door_.close(); }  // nobody is admitted from here on

 private:
  void on_guest(inter::TlsDoor::Guest guest);

  std::string region_;
  Admit admit_;
  inter::LogThrottle refusals_;
  inter::TlsDoor door_;
};

}  // namespace causeway::diloco
