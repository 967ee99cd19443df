// The port at which others knock: TCP, then TLS with the region's own certificate, all on a thread
// of its own, so that strangers cannot hold up what the owner's thread does. Who has shown a
// certificate of the run's authority is handed to the owner. All others are told why not as far as
// TLS can, within budgets of number, rate (strangers.h) and log lines.
//
// Credentials and revocations that were replaced count from the next knock on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <asio/any_io_executor.hpp>
#include <asio/ip/tcp.hpp>

#include "inter/base/limits.h"
#include "inter/door/strangers.h"
#include "inter/tls/pki.h"
#include "inter/tls/tls_stream.h"

namespace causeway::inter {

struct TlsDoorOptions {
  std::string owner;  // who says so in the log
  Credentials credentials;
  std::chrono::milliseconds handshake_deadline{10'000};
  std::size_t waiting_max = kUnauthenticatedMax;  // strangers at a time
  HandshakeLimits limits{};
};

class TlsDoor {
 public:
  struct Guest {
    asio::ip::tcp::socket socket;       // of the owner's executor, not blocking
    std::unique_ptr<TlsStream> stream;  // over it, after the handshake
    std::string name;                   // that its certificate is for
  };
  using Admit = std::function<void(Guest guest)>;

  // `admit` is called on `executor`. Throws std::system_error naming the credential that cannot be
  // used.
  TlsDoor(asio::any_io_executor executor, TlsDoorOptions options, Admit admit);
  ~TlsDoor();  // close()

  // Gives the port. Throws std::system_error if it cannot listen there.
  std::uint16_t listen(const asio::ip::tcp::endpoint& where);
  void start();  // whoever knocked since listen() is heard
  // Nobody is admitted from here on, and the thread has ended.
  void close();
  std::uint16_t port() const;  // since listen()

  // A member is at home there, or came from there and was taken in: strangers elsewhere do not use
  // up its budget.
  void expect(const asio::ip::address& address);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::inter
