#include "inter/door/tls_door.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include "inter/base/async.h"
#include "inter/door/strangers.h"
#include "inter/tls/credential_watch.h"
#include "inter/tls/tls_stream.h"

namespace causeway::inter {
namespace {

using asio::ip::tcp;
using Clock = HandshakeBudget::Clock;

// Somebody whose handshake is under way.
struct Knock {
  explicit Knock(tcp::socket accepted, const tcp::endpoint& from)
      : socket(std::move(accepted)), remote(from) {}

  std::string remote_host() const { return remote.address().to_string(); }
  void close(std::error_code code, const std::string& reason) {
    if (!closed) closed.emplace(code, reason);
    std::error_code ignored;
    socket.close(ignored);
  }
  void check_open() const {
    if (closed) throw *closed;
  }

  tcp::socket socket;
  tcp::endpoint remote;
  std::optional<LinkError> closed;  // and why
};
using KnockPtr = std::shared_ptr<Knock>;

// What the owner's thread and the door's both hold: whether the owner still admits anybody.
struct Owner {
  asio::any_io_executor executor;
  TlsDoor::Admit admit;  // null once closed; touched by the owner's thread alone
};

}  // namespace

class TlsDoor::Implementation {
 public:
  Implementation(asio::any_io_executor executor, TlsDoorOptions options, Admit admit)
      : owner_(std::make_shared<Owner>(Owner{std::move(executor), std::move(admit)})),
        options_(std::move(options)),
        watch_(options_.owner, options_.credentials),
        tls_(make_tls_context(options_.credentials, TlsRole::server)),
        acceptor_(io_),
        budget_(options_.limits),
        strangers_(options_.waiting_max) {}
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  ~Implementation() { close(); }

  std::uint16_t listen(const tcp::endpoint& where) {
    acceptor_.open(where.protocol());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.bind(where);
    acceptor_.listen();
    return port_ = acceptor_.local_endpoint().port();
  }

  void start() {
    spawn(accept());
    thread_ = std::thread([this] { run(); });
  }

  void close() {
    owner_->admit = nullptr;
    io_.stop();
    if (thread_.joinable()) thread_.join();
    std::error_code ignored;
    acceptor_.close(ignored);
  }

  std::uint16_t port() const { return port_; }

  void expect(const asio::ip::address& address) {
    asio::post(io_, [this, address] { budget_.expect(address, Clock::now()); });
  }

 private:
  void run() {
    try {
      io_.run();
    } catch (...) {
      // As if it had happened on the owner's thread.
      asio::post(owner_->executor,
                 [failure = std::current_exception()] { std::rethrow_exception(failure); });
    }
  }

  void spawn(asio::awaitable<void> task) {
    asio::co_spawn(io_, std::move(task), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
  }

  asio::awaitable<void> accept() {
    const auto hear = [this](tcp::socket socket) {
      std::error_code gone;
      const tcp::endpoint remote = socket.remote_endpoint(gone);
      if (gone) return;
      const auto knock = std::make_shared<Knock>(std::move(socket), remote);
      if (budget_.take(remote.address(), Clock::now())) return spawn(serve(knock));
      log_refusal(*knock, "too many handshakes a second from there, or from strangers in all");
    };
    co_await accept_all(acceptor_, options_.owner, hear);
  }

  asio::awaitable<void> serve(KnockPtr knock) {
    strangers_.enter(knock, budget_.expects(knock->remote.address()));
    std::string refusal;
    try {
      auto stream = co_await shake_hands(knock);
      std::string name = stream->peer_region();
      strangers_.leave(knock);
      hand_over(*knock, std::move(stream), std::move(name));
    } catch (const LinkError& error) {
      refusal = error.reason();
    }
    if (!refusal.empty()) {
      log_refusal(*knock, refusal);
      co_await see_off(knock);
    }
    strangers_.leave(knock);
  }

  asio::awaitable<std::unique_ptr<TlsStream>> shake_hands(KnockPtr knock) {
    watch_.reload([this] { tls_ = make_tls_context(options_.credentials, TlsRole::server); });
    const Deadline deadline(io_.get_executor(), options_.handshake_deadline, [this, knock] {
      knock->close(Errc::deadline,
                   "no TLS handshake within " + seconds_text(options_.handshake_deadline));
    });
    std::error_code error;
    knock->socket.native_non_blocking(true, error);
    auto stream = std::make_unique<TlsStream>(make_socket_bio(knock->socket.native_handle()), tls_,
                                              TlsRole::server);
    for (;;) {
      const TlsStream::Outcome outcome = stream->handshake().outcome;
      if (outcome == TlsStream::Outcome::done) break;
      const bool reading = outcome == TlsStream::Outcome::wants_reading;
      co_await knock->socket.async_wait(reading ? tcp::socket::wait_read : tcp::socket::wait_write,
                                        asio::redirect_error(asio::use_awaitable, error));
      knock->check_open();
      if (error) throw LinkError(error, error.message());
    }
    co_return stream;
  }

  void hand_over(Knock& knock, std::unique_ptr<TlsStream> stream, std::string name) {
    const auto protocol = knock.remote.protocol();
    asio::post(owner_->executor,
               [owner = owner_,
                guest = Guest{tcp::socket(owner_->executor, protocol, knock.socket.release()),
                              std::move(stream), std::move(name)}]() mutable {
                 if (owner->admit) owner->admit(std::move(guest));
               });
  }

  // Says that we are done and waits for the stranger to close, so that the alert, already sent, is
  // not lost to a reset.
  asio::awaitable<void> see_off(KnockPtr knock) {
    if (knock->closed) co_return;
    strangers_.refused(knock);
    const Deadline deadline(io_.get_executor(), options_.handshake_deadline,
                            [knock] { knock->close(Errc::deadline, "the peer does not close"); });
    co_await end_politely(knock->socket);
  }

  void log_refusal(const Knock& knock, const std::string& reason) {
    if (const auto more = refusals_.note(knock.remote_host() + " " + reason))
      spdlog::warn("{}: refused {}: {}{}", options_.owner, to_text(knock.remote), reason, *more);
  }

  std::shared_ptr<Owner> owner_;
  TlsDoorOptions options_;
  asio::io_context io_{1};
  CredentialWatch watch_;
  TlsContext tls_;
  tcp::acceptor acceptor_;
  std::uint16_t port_ = 0;
  HandshakeBudget budget_;
  Strangers<Knock> strangers_;
  LogThrottle refusals_;
  std::thread thread_;
};

TlsDoor::TlsDoor(asio::any_io_executor executor, TlsDoorOptions options, Admit admit)
    : implementation_(std::make_unique<Implementation>(std::move(executor), std::move(options),
                                                       std::move(admit))) {}

TlsDoor::~TlsDoor() = default;

std::uint16_t TlsDoor::listen(const tcp::endpoint& where) {
  return implementation_->listen(where);
}

void TlsDoor::start() {
  implementation_->start();
}

void TlsDoor::close() {
  implementation_->close();
}

std::uint16_t TlsDoor::port() const {
  return implementation_->port();
}

void TlsDoor::expect(const asio::ip::address& address) {
  implementation_->expect(address);
}

}  // namespace causeway::inter
