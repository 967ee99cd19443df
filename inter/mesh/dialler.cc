// The dialling half of the mesh: from a peer's address to a served session, again and again.
#include <openssl/rand.h>

#include <algorithm>
#include <cassert>
#include <iterator>
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

}  // namespace

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
  const Judge judge = self->judge(*peer);
  {
    const auto give_up = [self, control] {
      control->close(Errc::deadline, "no answer to our greeting within " +
                                         seconds_text(self->options_.handshake_deadline));
    };
    const Deadline deadline(self->executor_, self->options_.handshake_deadline, give_up);
    const Verdicts verdicts = co_await greet_listener(*control, peer->name, hello, judge);
    self->act_on(verdicts, *peer);
  }
  const auto session = self->begin_session(peer, control, nonce, true);
  for (unsigned i = 0; i < self->options_.data_connections; ++i)
    self->tasks_.spawn(keep_data_connection(self, peer, session, control->remote_endpoint()));
  co_await run_session(self, peer, session);
}

// One of a session's data connections: dialled again whenever it is lost, where the control
// connection found the peer.
asio::awaitable<void> MeshCore::keep_data_connection(Self self, PeerPtr peer,
                                                     std::shared_ptr<Session> session,
                                                     tcp::endpoint endpoint) {
  Backoff backoff(self->options_.reconnect_delay_min, self->options_.reconnect_delay_max,
                  self->options_.seed);
  while (!self->stopping_ && !session->is_closed()) {
    std::string failure;
    try {
      const auto data = co_await open_data(self, peer, endpoint, session->nonce());
      backoff.reset();
      failure = co_await Session::serve_data(session, data);
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
                                                                 const SessionNonce& nonce) {
  const auto data = co_await open_at(self, peer, endpoint);
  const Hello hello = self->hello(ConnectionKind::data, nonce);
  const Deadline deadline(self->executor_, self->options_.handshake_deadline, [self, data] {
    data->close(Errc::deadline, "no answer on the data connection within " +
                                    seconds_text(self->options_.handshake_deadline));
  });
  const std::string refusal = co_await join_session(*data, hello);
  if (!refusal.empty())
    throw LinkError(Errc::refused, peer->name + " refused our data connection: " + refusal);
  co_return data;
}

// Where to dial the peer: each address of each of its names, first the one that led to it last. A
// dark one costs a deadline each time.
asio::awaitable<std::vector<tcp::endpoint>> MeshCore::look_up(Self self, PeerPtr peer) {
  std::vector<tcp::endpoint> all;
  std::optional<LinkError> failure;
  for (const Endpoint& address : peer->addresses()) {
    try {
      std::ranges::copy(co_await resolve(address, self->options_.handshake_deadline),
                        std::back_inserter(all));
    } catch (const LinkError& error) {
      failure = error;
    }
  }
  if (all.empty()) throw failure.value_or(LinkError(Errc::bad_address, "the name has no address"));
  const auto last = std::ranges::find(all, peer->reached_at);
  if (last != all.end()) std::rotate(all.begin(), last, last + 1);
  co_return all;
}

// Tries every address of the peer in turn; the last failure is the one reported.
asio::awaitable<std::shared_ptr<Connection>> MeshCore::open(Self self, PeerPtr peer) {
  std::vector<tcp::endpoint> endpoints = co_await look_up(self, peer);
  for (;;) {
    const tcp::endpoint endpoint = endpoints.front();
    if (self->door_) self->door_->expect(endpoint.address());
    try {
      const auto connection = co_await open_at(self, peer, endpoint);
      peer->reached_at = endpoint;
      co_return connection;
    } catch (const LinkError& error) {
      endpoints.erase(endpoints.begin());
      if (endpoints.empty() || error.code() == Errc::revoked || self->stopping_ || peer->removed)
        throw;
    }
  }
}

asio::awaitable<std::shared_ptr<Connection>> MeshCore::open_at(Self self, PeerPtr peer,
                                                               tcp::endpoint endpoint) {
  const auto connection = self->connections_.dialled(tcp::socket(self->executor_));
  connection->count_into(peer->carried.traffic);
  connection->check_open();
  std::string region;
  {
    const Deadline deadline(self->executor_, self->options_.handshake_deadline, [self, connection] {
      connection->close(Errc::deadline, "no TLS handshake within " +
                                            seconds_text(self->options_.handshake_deadline));
    });
    co_await connection->connect(endpoint);
    region = co_await connection->handshake();
  }
  if (region != peer->name) {
    co_await refuse(*connection, "the certificate at " + connection->remote() + " is for \"" +
                                     printable(region) + "\", not for \"" + peer->name + "\"");
  }
  co_return connection;
}

}  // namespace causeway::inter
