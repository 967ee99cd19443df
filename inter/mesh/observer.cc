#include "inter/mesh/observer.h"

#include <exception>
#include <memory>
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
    LinkError failure(Errc::bad_address, "the name has no address");
    try {
      const std::vector<tcp::endpoint> endpoints =
          co_await resolve(options_.address, options_.deadline);
      for (const tcp::endpoint& endpoint : endpoints) {
        try {
          co_return co_await ask_at(endpoint);
        } catch (const LinkError& error) {
          failure = error;
        }
        if (late_) break;
      }
    } catch (const LinkError& error) {
      failure = error;
    }
    if (late_) failure = {Errc::deadline, "no answer within " + seconds_text(options_.deadline)};
    throw LinkError(failure.code(), "asking " + to_string(options_.address) + ": " +
                                        failure.reason() + advice(failure));
  }

  void give_up() {
    late_ = true;
    if (connection_) connection_->close(Errc::deadline, "no answer");
  }

  asio::awaitable<std::string> ask_at(tcp::endpoint endpoint) {
    tcp::socket socket(io_, endpoint.protocol());
    if (options_.segment_bytes_max > 0)
      limit_segments(socket.native_handle(), options_.segment_bytes_max);
    connection_ = std::make_unique<Connection>(std::move(socket), context_,
                                               ConnectionSettings{kReportBytesMax, {}, {}});
    co_await connection_->connect(endpoint);
    const std::string region = co_await connection_->handshake();
    if (is_observer(region))
      throw LinkError(Errc::refused, "the certificate there is an observer's, not a region's");
    const Bytes hello = encode(Hello{ConnectionKind::observer, {}, name_, {}});
    co_await connection_->write(hello);
    const FrameView answer = co_await connection_->read();
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
  std::unique_ptr<Connection> connection_;
  bool late_ = false;
};

}  // namespace

std::string observe(const ObserverOptions& options) {
  return Observer(options).run();
}

}  // namespace causeway::inter
