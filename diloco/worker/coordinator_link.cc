#include "diloco/worker/coordinator_link.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "diloco/files/error.h"
#include "diloco/files/file_io.h"
#include "diloco/log/wire.h"
#include "diloco/worker/stream/worker_stream.h"
#include "diloco/worker/worker_messages.h"
#include "inter/base/tcp.h"
#include "inter/mesh/mesh.h"
#include "inter/mesh/resolve.h"
#include "inter/tls/pki.h"
#include "inter/tls/tls.h"

namespace causeway::diloco {
namespace {

using asio::ip::tcp;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kConnectDeadline{10'000};
constexpr milliseconds kMeanwhile{500};
constexpr std::chrono::minutes kLongSilence{10};

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
                                     steady_clock::time_point deadline, const Meanwhile& meanwhile,
                                     std::string& problem, bool small_segments) {
  Descriptor fd(
      ::socket(address.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) {
    problem = std::generic_category().message(errno);
    return std::nullopt;
  }
  if (small_segments) inter::limit_segments(fd.get(), inter::kSmallSegmentBytes);
  if (::connect(fd.get(), address.data(), static_cast<socklen_t>(address.size())) == 0) return fd;
  int error = errno;
  if (error == EINPROGRESS) {
    error = ETIMEDOUT;
    socklen_t size = sizeof error;
    if (wait_for(fd.get(), POLLOUT, deadline, meanwhile))
      ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0) return fd;
  problem = std::generic_category().message(error);
  return std::nullopt;
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
                                   Unreached& why, bool small_segments) {
  const inter::Endpoint endpoint = inter::parse_endpoint(request.coordinator);
  const auto credentials = inter::credentials_in(request.certificates, request.region);
  inter::check_dates(credentials);
  const auto context = inter::make_tls_context(credentials, inter::TlsRole::client);
  for (const tcp::endpoint& address : addresses_of(endpoint, meanwhile, why.problem)) {
    const auto deadline = steady_clock::now() + kConnectDeadline;
    std::optional<Descriptor> socket =
        connect_to(address, deadline, meanwhile, why.problem, small_segments);
    if (!socket) continue;
    auto stream = std::make_unique<WorkerTlsStream>(socket->get(), context, inter::TlsRole::client);
    if (!shake_hands(*stream, socket->get(), deadline, meanwhile)) {
      why = {"it takes the connection, but the TLS handshake does not end", true};
      continue;
    }
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
                                           Unreached& why, bool small_segments) {
  why.took_connection = false;
  if (!request.coordinator.empty()) return dial_tls(request, meanwhile, why, small_segments);
  std::optional<Descriptor> socket = connect_to(request.socket);
  if (!socket) {
    std::error_code ignored;
    why.problem = exists(request.socket.parent_path(), ignored) ? "" : "there is no such directory";
    return std::nullopt;
  }
  auto stream = make_unix_stream(socket->get());
  return WorkerDial{std::move(*socket), std::move(stream)};
}

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kKeepWaitingInterval{500};
// Without a byte taken of what we send: past it the coordinator hangs.
constexpr milliseconds kSendDeadline{60'000};

// Sockets of this process, each plus one: 0 is an empty place. A child has the one thread that
// forked, and may call what is safe in a signal handler, and no more.
constexpr std::size_t kOwnSocketsMax = 64;  // any more are the children's as well
std::array<std::atomic<int>, kOwnSocketsMax> own_sockets;

// The number stays taken: a destructor may close it in the child.
void drop_sockets_in_child() {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (std::atomic<int>& place : own_sockets) {
    const int socket = place.load() - 1;
    if (socket >= 0 && nothing >= 0) ::dup3(nothing, socket, O_CLOEXEC);
  }
  if (nothing >= 0) ::close(nothing);
}

}  // namespace

std::shared_ptr<void> keep_from_children(int socket) {
  [[maybe_unused]] static const int registered =
      ::pthread_atfork(nullptr, nullptr, drop_sockets_in_child);
  for (std::atomic<int>& place : own_sockets) {
    int empty = 0;
    if (place.compare_exchange_strong(empty, socket + 1))
      return {&place, [](std::atomic<int>* taken) { taken->store(0); }};
  }
  return nullptr;
}

void keep_waiting_or_throw(const WorkerSession::KeepWaiting& keep_waiting,
                           const std::string& what) {
  if (keep_waiting && !keep_waiting(what)) {
    throw std::system_error(std::make_error_code(std::errc::operation_canceled),
                            "stopped while waiting for " + what);
  }
}

std::string silence(std::chrono::steady_clock::duration lasts) {
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(lasts);
  if (minutes < kLongSilence) return {};
  return fmt::format(
      "; nobody has answered for {} min. Start the coordinator, or end this worker if its region "
      "does not go on: `causeway status --config` shows whether it was removed from the run",
      minutes.count());
}

void CoordinatorLink::wait_for_socket(short events, milliseconds at_most) {
  pollfd entry{.fd = socket_.get(), .events = events, .revents = 0};
  if (::poll(&entry, 1, static_cast<int>(at_most.count())) < 0 && errno != EINTR) {
    throw_errno("poll", "the coordinator's socket");
  }
}

void CoordinatorLink::send(const worker_wire::WorkerMessage& message,
                           std::vector<Descriptor> descriptors) {
  stream_->add({message.SerializeAsString(), std::move(descriptors)});
  auto deadline = steady_clock::now() + kSendDeadline;
  for (std::uint64_t sent = 0; !flush();) {
    if (stream_->sent_bytes() > sent) deadline = steady_clock::now() + kSendDeadline;
    sent = stream_->sent_bytes();
    if (steady_clock::now() > deadline) throw_lost("the coordinator does not read its socket");
    wait_for_socket(POLLOUT, kKeepWaitingInterval);
  }
}

// A coordinator that refuses us says so before it closes the session, on which we may be sending.
bool CoordinatorLink::flush() {
  try {
    return stream_->flush();
  } catch (const std::system_error& error) {
    if (error.code() == Errc::coordinator_lost) hear_refusal();
    throw;
  }
}

void CoordinatorLink::hear_refusal() {
  try {
    pollfd entry{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    while (stream_->more() || ::poll(&entry, 1, 0) > 0) look();
  } catch (const std::system_error& error) {
    if (error.code() != Errc::coordinator_lost) throw;
  }
}

// The next message that has arrived and is an answer; what only informs is noted.
std::optional<CoordinatorLink::Received> CoordinatorLink::take() {
  while (std::optional<Frame> frame = stream_->next()) {
    heard_ = true;
    Received received{.message = {}, .descriptors = std::move(frame->descriptors)};
    if (!received.message.ParseFromString(frame->bytes)) {
      throw_malformed("the coordinator's message cannot be parsed");
    }
    switch (received.message.body_case()) {
      case Message::kRefused: {
        const auto& refused = received.message.refused();
        throw std::system_error(make_error_code(kind_of(refused)), refused.reason());
      }
      case Message::kWaiting:
        waiting_for_ = received.message.waiting().what();
        break;
      case Message::kComeBack:
        called_back_ = true;
        break;
      case Message::kPayloads:
        std::ranges::move(received.descriptors, std::back_inserter(payloads_));
        break;
      case Message::kApply:
        std::ranges::move(received.descriptors, std::back_inserter(payloads_));
        received.descriptors = std::exchange(payloads_, {});
        return received;
      default:
        return received;
    }
  }
  return std::nullopt;
}

// Nothing if no answer came in time.
std::optional<CoordinatorLink::Received> CoordinatorLink::receive(milliseconds at_most) {
  const auto deadline = steady_clock::now() + at_most;
  for (;;) {
    if (std::optional<Received> received = take()) return received;
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) return std::nullopt;
    if (!stream_->more()) wait_for_socket(POLLIN, left);
    receive_bytes();
  }
}

CoordinatorLink::Received CoordinatorLink::wait(const WorkerSession::KeepWaiting& keep_waiting) {
  for (;;) {
    if (std::optional<Received> received = receive(kKeepWaitingInterval)) {
      return std::move(*received);
    }
    keep_waiting_or_throw(keep_waiting, waiting_for_);
  }
}

void CoordinatorLink::receive_bytes() {
  try {
    if (stream_->receive()) return;
  } catch (const std::system_error& error) {
    // It closed before it had read all of ours, and what it said may have come in just before.
    if (error.code() != Errc::coordinator_lost || closed_) throw;
  }
  // What it said before it closed comes first.
  if (!closed_) {
    closed_ = true;
    return;
  }
  throw_lost("the coordinator closed the session");
}

// What is here already comes first: it may be the last word of a coordinator that is gone.
std::optional<CoordinatorLink::Received> CoordinatorLink::look() {
  if (std::optional<Received> received = take()) return received;
  receive_bytes();
  return take();
}

void CoordinatorLink::send_if_idle(const worker_wire::WorkerMessage& message) {
  if (!stream_->empty()) return;
  stream_->add({message.SerializeAsString(), {}});
  try {
    stream_->flush();
  } catch (const std::system_error&) {
  }
}

bool CoordinatorLink::is_lost() const {
  pollfd entry{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace causeway::diloco
