// The dialling half of the mesh: from a peer's address to a served session, again and again.
#include <openssl/rand.h>

#include <cassert>
#include <optional>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "inter/base/text.h"
#include "inter/mesh/mesh_core.h"
#include "inter/mesh/resolve.h"

namespace causeway::inter {

using asio::ip::tcp;

namespace {

std::string either_of(const std::vector<Endpoint>& addresses) {
  std::string text;
  for (const Endpoint& address : addresses)
    text += (text.empty() ? "" : " or ") + to_string(address);
  return text;
}

constexpr const char* kLargeAgain = "large segments are tried again";
constexpr int kStoodLong = 10;  // times small_segments_for: a link

tcp::socket socket_for(const asio::any_io_executor& executor, const tcp::endpoint& endpoint,
                       bool small_segments) {
  tcp::socket socket(executor);
  std::error_code error;
  if (small_segments) socket.open(endpoint.protocol(), error);
  if (socket.is_open()) limit_segments(socket.native_handle(), kSmallSegmentBytes);
  return socket;
}

}  // namespace

void MeshCore::note_small_segments(Peer& peer, const Connection& connection) {
  if (const auto more = peer.failures.note("small segments")) {
    spdlog::warn(
        "{}: {} at {} answers now that it gets small packets, and did not before: it hung for a "
        "while, or something on the way drops large ones in silence (MTU); small ones cost rate. "
        "`causeway doctor` tells which it is{}",
        options_.self, peer.name, connection.remote(), *more);
  }
}

SessionNonce MeshCore::random_nonce() {
  SessionNonce nonce;
  const bool filled = RAND_bytes(nonce.data(), static_cast<int>(nonce.size())) == 1;
  assert(filled);
  return nonce;
}

asio::awaitable<void> MeshCore::dial_loop(Self self, PeerPtr peer) {
  while (!self->stopping_ && !peer->removed) {
    if (const auto delay = peer->dials_in(); delay.count() > 0) {
      peer->retry.expires_after(delay);
      std::error_code woken;
      co_await peer->retry.async_wait(asio::redirect_error(asio::use_awaitable, woken));
      continue;
    }
    std::string failure;
    try {
      co_await dial(self, peer);
    } catch (const LinkError& error) {
      failure = error.reason();
      if (error.code() == Errc::revoked && !self->stopping_) {
        self->handler_.on_refused_by(peer->name, error);
        failure.clear();
      }
    }
    if (self->stopping_ || peer->removed) break;
    const bool failed = !failure.empty() && !peer->linked();
    if (const auto more = failed ? peer->failures.note(failure) : std::nullopt) {
      spdlog::warn("{}: no link to {} at {}: {}{}", self->options_.self, peer->name,
                   either_of(peer->addresses()), failure, *more);
    }
    peer->retry.expires_after(peer->backoff.next());
    std::error_code cancelled;
    co_await peer->retry.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
}

asio::awaitable<void> MeshCore::dial(Self self, PeerPtr peer) {
  const SessionNonce nonce = random_nonce();
  const auto control = co_await open(self, peer);
  if (peer->linked()) co_return;  // it dialled us meanwhile
  const Hello hello = self->hello(ConnectionKind::control, nonce);
  std::string greeting;
  const Judge judge = self->judge(*peer, greeting);
  {
    const auto give_up = [self, peer, control] {
      peer->small_segments.turn(control->remote_endpoint());
      control->close(Errc::deadline,
                     unanswered("no answer to our greeting", self->options_.handshake_deadline));
    };
    const Deadline deadline(self->executor_, self->options_.handshake_deadline, give_up);
    const Verdicts verdicts = co_await greet_listener(*control, peer->name, hello, judge);
    self->act_on(verdicts, *peer);
  }
  const auto session = self->begin_session(peer, control, nonce, true, greeting);
  const tcp::endpoint at = control->remote_endpoint();
  for (unsigned i = 0; i < self->options_.data_connections; ++i)
    self->tasks_.spawn(keep_data_connection(self, peer, session, at, i));
  const auto began = Connection::Clock::now();
  co_await run_session(self, peer, session);
  if (Connection::Clock::now() - began > kStoodLong * self->options_.small_segments_for)
    peer->small_segments.forget(at);
}

// One of a session's data connections: dialled again whenever it is lost, where the control
// connection found the peer.
asio::awaitable<void> MeshCore::keep_data_connection(Self self, PeerPtr peer,
                                                     std::shared_ptr<Session> session,
                                                     tcp::endpoint endpoint, unsigned number) {
  Backoff backoff = peer->backoff_of(number);
  SegmentSize segments(self->options_.small_segments_for, self->options_.seed + number);
  while (!self->stopping_ && !session->is_closed()) {
    std::string failure;
    try {
      const auto data = co_await open_data(self, peer, endpoint, session->nonce(), segments);
      backoff.reset();
      std::optional<Deadline> gives_way;
      if (segments.small()) {
        gives_way.emplace(self->executor_, segments.small_for(), [data, peer] {
          if (!peer->meter.is_crowded(Connection::Clock::now()))
            data->close(Errc::deadline, kLargeAgain);
        });
      }
      const auto joined = Connection::Clock::now();
      failure = co_await Session::serve_data(session, data);
      gives_way.reset();
      if (failure != kPathChanged)
        segments.on_end(Connection::Clock::now() - joined, data->received_bytes(),
                        data->acked_bytes());
      if (failure == kLargeAgain) segments.try_large();
    } catch (const LinkError& error) {
      failure = error.reason();
    }
    if (self->stopping_ || session->is_closed()) break;
    if (const auto more = peer->failures.note(failure)) {
      spdlog::warn("{}: a data connection to {} ended: {}{}", self->options_.self, peer->name,
                   failure, *more);
    }
    co_await session->wait(backoff.next());
  }
}

asio::awaitable<std::shared_ptr<Connection>> MeshCore::open_data(Self self, PeerPtr peer,
                                                                 tcp::endpoint endpoint,
                                                                 SessionNonce nonce,
                                                                 SegmentSize& segments) {
  const std::function<void()> turn = [&segments] { segments.turn(); };
  const auto data = co_await open_at(self, peer, endpoint, segments.small(), turn);
  const Hello hello = self->hello(ConnectionKind::data, nonce);
  const Deadline deadline(self->executor_, self->options_.handshake_deadline, [self, data] {
    data->close(Errc::deadline,
                unanswered("no answer on the data connection", self->options_.handshake_deadline));
  });
  const std::string refusal = co_await join_session(*data, hello);
  if (!refusal.empty())
    throw LinkError(Errc::refused, peer->name + " refused our data connection: " + refusal);
  co_return data;
}

// Where the last link was, as another address that is dark costs a deadline each time; then every
// address of the peer in turn. The last failure is the one reported.
asio::awaitable<std::shared_ptr<Connection>> MeshCore::open(Self self, PeerPtr peer) {
  const auto is_final = [&](const LinkError& error) {
    return error.code() == Errc::revoked || self->stopping_ || peer->removed;
  };
  if (const auto last = std::exchange(peer->reached_at, std::nullopt)) {
    try {
      co_return co_await reach(self, peer, *last);
    } catch (const LinkError& error) {
      if (is_final(error)) throw;
    }
  }
  const std::vector<Endpoint> addresses = peer->addresses();
  for (std::size_t i = 0; i + 1 < addresses.size(); ++i) {
    try {
      co_return co_await open_named(self, peer, addresses[i]);
    } catch (const LinkError& error) {
      if (is_final(error)) throw;
    }
  }
  co_return co_await open_named(self, peer, addresses.back());
}

// The same of every address that the name has.
asio::awaitable<std::shared_ptr<Connection>> MeshCore::open_named(Self self, PeerPtr peer,
                                                                  Endpoint address) {
  const auto endpoints = co_await resolve(address, self->options_.handshake_deadline);
  LinkError failure(Errc::bad_address, "the name has no address");
  for (const tcp::endpoint& endpoint : endpoints) {
    try {
      co_return co_await reach(self, peer, endpoint);
    } catch (const LinkError& error) {
      failure = error;
    }
  }
  throw failure;
}

asio::awaitable<std::shared_ptr<Connection>> MeshCore::reach(Self self, PeerPtr peer,
                                                             tcp::endpoint endpoint) {
  if (self->door_) self->door_->expect(endpoint.address());
  const std::function<void()> turn = [peer, endpoint] { peer->small_segments.turn(endpoint); };
  const bool small = peer->small_segments.at(endpoint);
  const auto connection = co_await open_at(self, peer, endpoint, small, turn);
  peer->reached_at = endpoint;
  co_return connection;
}

// `small`: with small segments. `turn` is called if the connection is made and then nothing is
// answered.
asio::awaitable<std::shared_ptr<Connection>> MeshCore::open_at(Self self, PeerPtr peer,
                                                               tcp::endpoint endpoint, bool small,
                                                               std::function<void()> turn) {
  const auto connection = self->connections_.dialled(socket_for(self->executor_, endpoint, small));
  connection->count_into(peer->carried.traffic);
  connection->check_open();
  bool connected = false;
  std::string region;
  {
    const auto limit = self->options_.handshake_deadline;
    const Deadline deadline(self->executor_, limit, [&] {
      if (connected) turn();
      connection->close(Errc::deadline, connected
                                            ? unanswered("no TLS handshake", limit)
                                            : "no TCP connection within " + seconds_text(limit));
    });
    co_await connection->connect(endpoint);
    connected = true;
    region = co_await connection->handshake();
  }
  if (small) self->note_small_segments(*peer, *connection);
  if (region != peer->name) {
    co_await refuse(*connection, "the certificate at " + connection->remote() + " is for \"" +
                                     printable(region) + "\", not for \"" + peer->name + "\"");
  }
  co_return connection;
}

}  // namespace causeway::inter
