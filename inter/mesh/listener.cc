// The listening half of the mesh: from an accepted socket to a served session.
#include <utility>

#include <spdlog/spdlog.h>

#include "inter/base/limits.h"
#include "inter/base/text.h"
#include "inter/mesh/mesh_core.h"
#include "inter/tls/pki.h"

namespace causeway::inter {

using asio::ip::tcp;

namespace {

// Empty: none.
std::string objection_to_name(const std::string& certified, const Hello& hello) {
  if (hello.sender == certified) return "";
  return "it greets as \"" + printable(hello.sender) + "\" with the certificate of \"" +
         printable(certified) + "\"";
}

}  // namespace

asio::awaitable<void> MeshCore::serve(Self self, TlsDoor::Guest guest) {
  const std::string name = std::move(guest.name);
  const auto connection = self->connections_.admitted(std::move(guest));
  std::string failure;
  try {
    co_await admit(self, connection, name);
  } catch (const LinkError& error) {
    failure = error.reason();
  }
  if (!failure.empty() && !self->stopping_) {
    self->log_refusal(*connection, failure);
    co_await see_off(self, connection);
  }
  self->strangers_.leave(connection);
}

asio::awaitable<void> MeshCore::see_off(Self self, std::shared_ptr<Connection> connection) {
  if (connection->is_closed()) co_return;
  self->strangers_.refused(connection);
  const Deadline deadline(self->executor_, self->options_.handshake_deadline, [connection] {
    connection->close(Errc::deadline, "the peer does not close");
  });
  co_await connection->linger();
}

void MeshCore::log_refusal(const Connection& connection, const std::string& reason) {
  if (const auto more = refusals_.note(connection.remote_host() + " " + reason))
    spdlog::warn("{}: refused {}: {}{}", options_.self, connection.remote(), reason, *more);
}

asio::awaitable<void> MeshCore::admit(Self self, std::shared_ptr<Connection> connection,
                                      std::string region) {
  self->strangers_.enter(connection);
  std::optional<Deadline> deadline;
  deadline.emplace(self->executor_, self->options_.handshake_deadline, [self, connection] {
    connection->close(Errc::deadline, unanswered("no greeting", self->options_.handshake_deadline));
  });
  const Hello theirs = co_await read_hello(*connection);
  if (theirs.kind == ConnectionKind::observer) {
    co_await admit_observer(self, connection, region, theirs);
    co_return;
  }
  self->strangers_.leave(connection);
  const auto found = self->peers_.find(region);
  const PeerPtr peer = found == self->peers_.end() ? nullptr : found->second;
  std::string objection = objection_to_name(region, theirs);
  if (objection.empty() && theirs.kind == ConnectionKind::detour)
    objection = "it greets as if a third region carried it";
  if (objection.empty() && theirs.kind == ConnectionKind::follower)
    objection = "it greets as a follower with the certificate of a region";
  if (objection.empty()) objection = self->refuses_all_;
  if (objection.empty() && peer == nullptr) {
    objection = "region \"" + printable(region) + "\" is not a peer of \"" + self->options_.self +
                "\": `causeway members add` in a region of the run lets it take part";
  }
  if (!objection.empty()) co_await refuse(*connection, objection);
  deadline.reset();
  connection->count_into(peer->carried.traffic);
  if (theirs.kind == ConnectionKind::control) {
    co_await admit_control(self, connection, peer, theirs);
  } else {
    co_await admit_data(self, connection, peer, theirs);
  }
}

// Within the deadline and the number of those who are not peers.
asio::awaitable<void> MeshCore::admit_observer(Self self, std::shared_ptr<Connection> connection,
                                               std::string name, Hello theirs) {
  std::string objection = objection_to_name(name, theirs);
  const bool known = name == self->options_.self || self->peers_.contains(name) ||
                     self->dropped_.contains(name) || is_observer(name);
  if (objection.empty() && !known)
    objection = "\"" + printable(name) + "\" is neither a region of this run nor an observer";
  if (!objection.empty()) co_await refuse(*connection, objection);
  const Bytes report = encode_text(FrameType::message, self->handler_.report(name));
  co_await connection->write(report);
  co_await connection->linger();
}

asio::awaitable<void> MeshCore::admit_control(Self self, std::shared_ptr<Connection> control,
                                              PeerPtr peer, Hello theirs) {
  const std::string process = self->handler_.process_of(theirs.greeting);
  const std::string objection = peer->objection_to_link(*control, process);
  if (!objection.empty()) co_await refuse(*control, objection);
  const std::weak_ptr<Session> stood = peer->linked() ? peer->session : nullptr;
  if (const auto before = peer->greeting.lock())
    before->close(Errc::refused, "the region connected anew");
  peer->greeting = control;
  std::optional<Deadline> deadline;
  deadline.emplace(self->executor_, self->options_.handshake_deadline, [self, control] {
    control->close(Errc::deadline,
                   unanswered("no answer to our greeting", self->options_.handshake_deadline));
  });
  const Hello mine = self->hello(ConnectionKind::control, theirs.nonce);
  const Judge judge = self->judge(*peer);
  const Verdicts verdicts = co_await greet_dialler(*control, theirs, mine, judge);
  self->act_on(verdicts, *peer);
  // What stood before belongs to a life of the peer that is over. Not sooner: a doctor has the same
  // certificate, and is refused.
  if (const auto before = stood.lock(); before && before == peer->session)
    self->take_down(*peer, peer->reason_to_replace(*control, process));
  if (self->door_) self->door_->expect(control->remote_endpoint().address());
  deadline.reset();
  peer->greeting.reset();
  co_await run_session(self, peer,
                       self->begin_session(peer, control, theirs.nonce, false, theirs.greeting));
}

asio::awaitable<void> MeshCore::admit_data(Self self, std::shared_ptr<Connection> data,
                                           PeerPtr peer, Hello theirs) {
  const auto session = peer->session;
  if (!peer->linked() || session->nonce() != theirs.nonce ||
      session->data_connections() >= kDataConnectionsMax) {
    co_await refuse(*data, session && session->nonce() == theirs.nonce
                               ? "too many data connections"
                               : "no control connection waits for this data connection");
  }
  const Bytes accepted = encode_empty(FrameType::accept);
  co_await data->write(accepted);
  // Behind a NAT it may have another address than the session's first connection.
  if (self->door_) self->door_->expect(data->remote_endpoint().address());
  co_await Session::serve_data(session, data);
}

}  // namespace causeway::inter
