#include "inter/mesh/open_connections.h"

#include <utility>

namespace causeway::inter {
namespace {

void close_for_stop(Connection& connection) {
  connection.close(std::make_error_code(std::errc::operation_canceled), kStopReason);
}

}  // namespace

void OpenConnections::load_credentials(Validity validity) {
  check_own_certificate(options_.credentials, options_.self, validity);
  const TlsContext client = make_tls_context(options_.credentials, TlsRole::client);
  const TlsContext server = make_tls_context(options_.credentials, TlsRole::server);
  client_context_ = client;
  server_context_ = server;
}

void OpenConnections::check_revocations() {
  for (const auto& weak : all_) {
    if (const auto connection = weak.lock()) {
      connection->check_revocation(server_context_);
    }
  }
}

std::shared_ptr<Connection> OpenConnections::make(asio::ip::tcp::socket socket, TlsRole role) {
  const auto& context = role == TlsRole::client ? client_context_ : server_context_;
  auto connection = std::make_shared<Connection>(
      std::move(socket), context, role,
      ConnectionSettings{options_.message_bytes_max, 2 * options_.idle_deadline,
                         options_.congestion_control});
  std::erase_if(all_, [](const auto& weak) { return weak.expired(); });
  all_.push_back(connection);
  if (closed_) {
    close_for_stop(*connection);  // its coroutine began too late for close() to see it
  }
  return connection;
}

void OpenConnections::close() {
  closed_ = true;
  for (const auto& weak : all_) {
    if (const auto connection = weak.lock()) {
      close_for_stop(*connection);
    }
  }
}

}  // namespace causeway::inter
