#include "inter/mesh/open_connections.h"

#include <system_error>
#include <utility>

#include "inter/base/limits.h"

namespace causeway::inter {
namespace {

void close_for_stop(Connection& connection) {
  connection.close(std::make_error_code(std::errc::operation_canceled), kStopReason);
}

}  // namespace

void OpenConnections::load_credentials(Validity validity) {
  check_own_certificate(options_.credentials, options_.self, validity);
  context_ = make_tls_context(options_.credentials, TlsRole::client);
  answering_ = make_tls_context(options_.credentials, TlsRole::server);
}

void OpenConnections::check_revocations() {
  for (const auto& weak : all_)
    if (const auto connection = weak.lock()) connection->check_revocation(context_);
}

ConnectionSettings OpenConnections::settings() const {
  return {options_.message_bytes_max, kControlDeadlines * options_.idle_deadline,
          options_.congestion_control};
}

std::shared_ptr<Connection> OpenConnections::dialled(asio::ip::tcp::socket socket) {
  return keep(std::make_shared<Connection>(std::move(socket), context_, settings()));
}

std::shared_ptr<Connection> OpenConnections::admitted(TlsDoor::Guest guest) {
  return keep(
      std::make_shared<Connection>(std::move(guest.socket), std::move(guest.stream), settings()));
}

std::shared_ptr<Connection> OpenConnections::carried(asio::local::stream_protocol::socket socket,
                                                     const std::string& via, TlsRole role) {
  const TlsContext& context = role == TlsRole::client ? context_ : answering_;
  return keep(std::make_shared<Connection>(std::move(socket), "the other end by way of " + via,
                                           context, role, settings()));
}

std::shared_ptr<Connection> OpenConnections::keep(std::shared_ptr<Connection> connection) {
  std::erase_if(all_, [](const auto& weak) { return weak.expired(); });
  all_.push_back(connection);
  if (closed_) close_for_stop(*connection);  // its coroutine began too late for close() to see it
  return connection;
}

void OpenConnections::close() {
  closed_ = true;
  for (const auto& weak : all_)
    if (const auto connection = weak.lock()) close_for_stop(*connection);
}

}  // namespace causeway::inter
