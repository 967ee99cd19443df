#include "diloco/worker/worker_dial.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <vector>

#include "diloco/files/error.h"
#include "diloco/worker/stream/worker_tls_stream.h"
#include "inter/mesh/mesh.h"
#include "inter/mesh/resolve.h"
#include "inter/tls/pki.h"

namespace causeway::diloco {
namespace {

using asio::ip::tcp;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kConnectDeadline{10'000};
constexpr milliseconds kMeanwhile{500};

using Meanwhile = std::function<void()>;

// False: not in time.
bool wait_for(int socket, short events, steady_clock::time_point deadline,
              const Meanwhile& meanwhile) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd entry{.fd = socket, .events = events, .revents = 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min(left, kMeanwhile).count()));
    if (ready > 0) return true;
    if (ready == 0) meanwhile();
    if (ready < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "poll");
  }
}

std::vector<tcp::endpoint> addresses_of(const inter::Endpoint& endpoint, const Meanwhile& meanwhile,
                                        std::string& problem) {
  try {
    auto addresses = inter::wait_to_resolve(endpoint, kConnectDeadline, meanwhile);
    problem.clear();
    return addresses;
  } catch (const inter::LinkError& error) {
    problem = error.reason();
    return {};  // a name may come back as everything else may
  }
}

std::optional<Descriptor> connect_to(const tcp::endpoint& address,
                                     steady_clock::time_point deadline,
                                     const Meanwhile& meanwhile) {
  Descriptor fd(
      ::socket(address.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return std::nullopt;
  if (::connect(fd.get(), address.data(), static_cast<socklen_t>(address.size())) == 0) return fd;
  if (errno != EINPROGRESS || !wait_for(fd.get(), POLLOUT, deadline, meanwhile))
    return std::nullopt;
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
    return std::nullopt;
  return fd;
}

// False: no answer in time, or the connection broke.
bool shake_hands(WorkerTlsStream& stream, int socket, steady_clock::time_point deadline,
                 const Meanwhile& meanwhile) {
  try {
    for (;;) {
      const auto outcome = stream.handshake();
      if (outcome == inter::TlsStream::Outcome::done) return true;
      const bool reading = outcome == inter::TlsStream::Outcome::wants_reading;
      const short events = reading ? POLLIN : POLLOUT;
      if (!wait_for(socket, events, deadline, meanwhile)) return false;
    }
  } catch (const inter::LinkError& error) {
    if (inter::is_refusal(error.code()) || error.code() == inter::Errc::not_tls) throw;
    return false;
  }
}

std::optional<WorkerDial> dial_tls(const AttachRequest& request, const Meanwhile& meanwhile,
                                   std::string& problem) {
  const inter::Endpoint endpoint = inter::parse_endpoint(request.coordinator);
  const auto credentials = inter::credentials_in(request.certificates, request.region);
  const auto context = inter::make_tls_context(credentials, inter::TlsRole::client);
  for (const tcp::endpoint& address : addresses_of(endpoint, meanwhile, problem)) {
    const auto deadline = steady_clock::now() + kConnectDeadline;
    std::optional<Descriptor> socket = connect_to(address, deadline, meanwhile);
    if (!socket) continue;
    auto stream = std::make_unique<WorkerTlsStream>(socket->get(), context, inter::TlsRole::client);
    if (!shake_hands(*stream, socket->get(), deadline, meanwhile)) continue;
    const std::string theirs = stream->peer_region();
    if (theirs != request.region) {
      stream->end();
      throw inter::LinkError(inter::Errc::refused, request.coordinator + " is the coordinator of " +
                                                       theirs + ", not of " + request.region);
    }
    return WorkerDial{std::move(*socket), std::move(stream)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<WorkerDial> dial_coordinator(const AttachRequest& request, const Meanwhile& meanwhile,
                                           std::string& problem) {
  if (!request.coordinator.empty()) return dial_tls(request, meanwhile, problem);
  std::optional<Descriptor> socket = connect_to(request.socket);
  if (!socket) {
    std::error_code ignored;
    problem = exists(request.socket.parent_path(), ignored) ? "" : "there is no such directory";
    return std::nullopt;
  }
  auto stream = make_unix_stream(socket->get());
  return WorkerDial{std::move(*socket), std::move(stream)};
}

}  // namespace causeway::diloco
