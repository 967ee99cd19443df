#include "diloco/worker/worker_door.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <list>
#include <system_error>
#include <utility>

#include <asio/ip/tcp.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "diloco/worker/stream/worker_tls_stream.h"
#include "inter/base/accept.h"
#include "inter/base/async.h"
#include "inter/mesh/resolve.h"
#include "inter/tls/credential_watch.h"

namespace causeway::diloco {
namespace {

using asio::ip::tcp;
using Socket = WorkerDoor::Socket;
using SocketPointer = std::shared_ptr<Socket>;
using inter::TlsStream;

constexpr std::chrono::milliseconds kHandshakeDeadline{10'000};
constexpr std::chrono::milliseconds kResolveBind{10'000};
// Strangers may hold as many sockets; the oldest gives way, so that they cannot keep a worker out.
constexpr std::size_t kHandshakesMax = 64;

}  // namespace

class WorkerDoor::Implementation : public std::enable_shared_from_this<Implementation> {
 public:
  Implementation(asio::any_io_executor executor, std::string region, const inter::Endpoint& bind,
                 const inter::Credentials& credentials, Admit admit)
      : executor_(executor),
        region_(std::move(region)),
        credentials_(credentials),
        watch_(region_, credentials),
        tls_(inter::make_tls_context(credentials, inter::TlsRole::server)),
        admit_(std::move(admit)),
        acceptor_(executor),
        tasks_(executor) {
    try {
      const tcp::endpoint endpoint = inter::listening_address(bind, kResolveBind);
      acceptor_.open(endpoint.protocol());
      acceptor_.set_option(tcp::acceptor::reuse_address(true));
      acceptor_.bind(endpoint);
      acceptor_.listen();
    } catch (const std::system_error& error) {
      inter::throw_cannot_listen(bind, error.code());
    }
  }

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  void start() { tasks_.spawn(accept(shared_from_this())); }

  void close() {
    admit_ = nullptr;
    std::error_code ignored;
    acceptor_.close(ignored);
    for (const SocketPointer& socket : knocking_) socket->close(ignored);
  }
  asio::awaitable<void> join() { return tasks_.join(); }

 private:
  using Self = std::shared_ptr<Implementation>;

  static asio::awaitable<void> accept(Self self) {
    const auto serve_socket = [&self](tcp::socket socket) {
      if (self->knocking_.size() >= kHandshakesMax) {
        std::error_code ignored;
        self->knocking_.front()->close(ignored);
        self->knocking_.pop_front();
      }
      self->tasks_.spawn(serve(self, std::move(socket)));
    };
    co_await inter::accept_all(self->acceptor_, "workers on other hosts", serve_socket);
  }

  static asio::awaitable<void> serve(Self self, tcp::socket accepted) {
    std::error_code ignored;
    const std::string remote = accepted.remote_endpoint(ignored).address().to_string();
    accepted.native_non_blocking(true, ignored);
    const auto socket = std::make_shared<Socket>(std::move(accepted));
    self->knocking_.push_back(socket);
    std::string refusal;
    try {
      auto stream = co_await self->shake_hands(socket);
      refusal = self->objection(stream->peer_region());
      if (self->admit_) self->admit_(std::move(*socket), std::move(stream), refusal);
    } catch (const inter::LinkError& error) {
      refusal = error.reason();
      socket->close(ignored);
    }
    self->knocking_.remove(socket);
    if (!refusal.empty() && self->admit_)
      spdlog::warn("{}: refused a worker from {}: {}", self->region_, remote, refusal);
  }

  std::string objection(const std::string& theirs) const {
    if (theirs == region_) return {};
    return "the certificate is for " + theirs + "; workers of " + region_ + " attach here";
  }

  asio::awaitable<std::unique_ptr<WorkerTlsStream>> shake_hands(SocketPointer socket) {
    watch_.reload([this] { tls_ = make_tls_context(credentials_, inter::TlsRole::server); });
    auto stream =
        std::make_unique<WorkerTlsStream>(socket->native_handle(), tls_, inter::TlsRole::server);
    const inter::Deadline deadline(executor_, kHandshakeDeadline, [socket] {
      std::error_code ignored;
      socket->close(ignored);
    });
    for (auto outcome = stream->handshake(); outcome != TlsStream::Outcome::done;
         outcome = stream->handshake()) {
      std::error_code error;
      co_await socket->async_wait(
          outcome == TlsStream::Outcome::wants_reading ? Socket::wait_read : Socket::wait_write,
          asio::redirect_error(asio::use_awaitable, error));
      if (error || !socket->is_open())
        throw inter::LinkError(inter::Errc::deadline,
                               "no TLS handshake in time, or too many unauthenticated peers");
    }
    co_return stream;
  }

  asio::any_io_executor executor_;
  std::string region_;
  inter::Credentials credentials_;
  inter::CredentialWatch watch_;
  inter::TlsContext tls_;
  Admit admit_;  // null once closed
  tcp::acceptor acceptor_;
  inter::TaskGroup tasks_;
  std::list<SocketPointer> knocking_;  // oldest first
};

WorkerDoor::WorkerDoor(asio::any_io_executor executor, std::string region,
                       const inter::Endpoint& bind, const inter::Credentials& credentials,
                       Admit admit)
    : implementation_(std::make_shared<Implementation>(executor, std::move(region), bind,
                                                       credentials, std::move(admit))) {}

WorkerDoor::~WorkerDoor() {
  implementation_->close();
}

std::uint16_t WorkerDoor::port() const {
  return implementation_->port();
}

void WorkerDoor::start() {
  implementation_->start();
}

void WorkerDoor::close() {
  implementation_->close();
}

asio::awaitable<void> WorkerDoor::join() {
  return implementation_->join();
}

}  // namespace causeway::diloco
