#include "inter/mesh/observer.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <asio/co_spawn.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>

#include "inter/base/async.h"
#include "inter/base/tcp.h"
#include "inter/mesh/connection.h"
#include "inter/mesh/greeting.h"
#include "inter/mesh/resolve.h"
#include "inter/tls/certificate.h"

namespace causeway::inter {
namespace {

using asio::ip::tcp;

constexpr std::uint32_t kReportBytesMax = 4U << 20;
constexpr std::chrono::milliseconds kHeadStartMax{2'000};
constexpr const char* kStands =
    ", though it takes connections: it hangs, or large packets are lost on the way (MTU)";

std::string own_name(const Credentials& credentials) {
  const CertificatePtr certificate = load_certificate(credentials.certificate);
  const auto names = dns_names(certificate.get());
  std::string name = names.size() == 1 ? names[0] : "";
  check_own_certificate(credentials, name, Validity::required);
  return name;
}

// What an operator can do about it; empty if the reason says it all.
std::string advice(const LinkError& error) {
  if (error.code() == asio::error::connection_refused)
    return ": no coordinator listens there; `listening_port` in a region's directory has its port";
  if (error.reason().find("certificate") != std::string::npos) {
    return ": use a certificate that the run's own authority issued, and its ca.crt "
           "(`causeway certs add-observer`)";
  }
  if (error.code() == Errc::not_tls) return ": that is not a coordinator's port";
  return "";
}

class Observer {
 public:
  explicit Observer(const ObserverOptions& options)
      : options_(options),
        name_(own_name(options.credentials)),
        context_(make_tls_context(options.credentials, TlsRole::client)) {}

  std::string run() {
    std::exception_ptr failure;
    std::string report;
    asio::co_spawn(io_, ask(), [&](std::exception_ptr error, std::string text) {
      failure = std::move(error);
      report = std::move(text);
    });
    io_.run();
    if (failure) std::rethrow_exception(failure);
    return report;
  }

 private:
  asio::awaitable<std::string> ask() {
    const Deadline deadline(io_.get_executor(), options_.deadline, [this] { give_up(); });
    try {
      const auto endpoints = co_await resolve(options_.address, options_.deadline);
      looked_up_ = true;
      const bool small = options_.segments == Segments::small;
      for (const tcp::endpoint& endpoint : endpoints) co_await try_at(endpoint, small);
      for (const tcp::endpoint& endpoint : endpoints) {
        if (options_.segments == Segments::large_then_small && silent_.contains(endpoint))
          co_await try_at(endpoint, true);
      }
    } catch (const LinkError& error) {
      failure_ = error;
    }
    while (!answer_ && !late_ && under_way_ > 0) co_await changed_.wait();
    close_all();
    co_await attempts_.join();
    if (!answer_) throw_failure();
    co_return std::move(*answer_);
  }

  // Gives it a head start before the next one is tried beside it.
  asio::awaitable<void> try_at(tcp::endpoint endpoint, bool small) {
    if (answer_ || late_) co_return;
    bool is_over = false;
    const auto head_start = std::min(kHeadStartMax, options_.deadline / 3);
    const Deadline next(io_.get_executor(), head_start, [&] {
      is_over = true;
      changed_.notify();
    });
    ++under_way_;
    const std::size_t failed = failed_;  // spawn() may do so at once
    attempts_.spawn(attempt(endpoint, small));
    while (!answer_ && !late_ && !is_over && failed_ == failed) co_await changed_.wait();
  }

  asio::awaitable<void> attempt(tcp::endpoint endpoint, bool small) {
    try {
      std::string report = co_await ask_at(endpoint, small);
      if (!answer_) answer_ = std::move(report);
    } catch (const LinkError& error) {
      if (!late_) {
        failure_ = error;
        silent_.erase(endpoint);
      }
      ++failed_;
    }
    --under_way_;
    changed_.notify();
  }

  void give_up() {
    late_ = true;
    close_all();
    changed_.notify();
  }

  void close_all() {
    for (const auto& weak : connections_)
      if (const auto open = weak.lock()) open->close(Errc::deadline, "no answer");
  }

  [[noreturn]] void throw_failure() const {
    LinkError failure = failure_;
    if (late_ && looked_up_) {
      failure = {Errc::deadline, "no answer within " + seconds_text(options_.deadline) +
                                     (silent_.empty() ? "" : kStands)};
    }
    throw LinkError(failure.code(), "asking " + to_string(options_.address) + ": " +
                                        failure.reason() + advice(failure));
  }

  asio::awaitable<std::string> ask_at(tcp::endpoint endpoint, bool small) {
    tcp::socket socket(io_);
    std::error_code error;  // a host may not have this version of IP
    socket.open(endpoint.protocol(), error);
    if (error) throw LinkError(error, error.message());
    if (small) limit_segments(socket.native_handle(), kSmallSegmentBytes);
    const auto connection = std::make_shared<Connection>(
        std::move(socket), context_, ConnectionSettings{kReportBytesMax, {}, {}});
    connections_.push_back(connection);
    co_await connection->connect(endpoint);
    silent_.insert(endpoint);
    const std::string region = co_await connection->handshake();
    if (is_observer(region))
      throw LinkError(Errc::refused, "the certificate there is an observer's, not a region's");
    const Bytes hello = encode(Hello{ConnectionKind::observer, {}, name_, {}});
    co_await connection->write(hello);
    const FrameView answer = co_await connection->read();
    if (answer.type == FrameType::refuse)
      throw LinkError(Errc::refused, region + " refuses: " + decode_reason(answer.body));
    if (answer.type != FrameType::message)
      throw LinkError(Errc::bad_frame, region + " does not answer with a report");
    co_return std::string(reinterpret_cast<const char*>(answer.body.data()), answer.body.size());
  }

  ObserverOptions options_;
  std::string name_;
  TlsContext context_;
  asio::io_context io_{1};
  Signal changed_{io_.get_executor()};
  TaskGroup attempts_{io_.get_executor()};
  std::vector<std::weak_ptr<Connection>> connections_;
  std::set<tcp::endpoint> silent_;  // where a connection came about, and no answer yet
  std::size_t under_way_ = 0, failed_ = 0;
  std::optional<std::string> answer_;
  LinkError failure_{Errc::bad_address, "the name has no address"};
  bool looked_up_ = false, late_ = false;
};

}  // namespace

std::string observe(const ObserverOptions& options) {
  return Observer(options).run();
}

}  // namespace causeway::inter
