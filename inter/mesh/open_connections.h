// The connections of a mesh that may be open: made with the credentials of the day, and closed when
// a peer's are revoked or the mesh stops. Internal to inter. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <asio/ip/tcp.hpp>
#include <asio/local/stream_protocol.hpp>

#include "inter/door/tls_door.h"
#include "inter/mesh/connection.h"
#include "inter/mesh/mesh.h"
#include "inter/tls/tls.h"

namespace causeway::inter {

inline constexpr const char* kStopReason = "this region stops";

class OpenConnections {
 public:
  // The options outlive this.
  explicit OpenConnections(const MeshOptions& options) : options_(options) {}

  // For connections from here on. Throws std::system_error naming the file that cannot be used;
  // then the credentials before stay in use.
  void load_credentials(Validity validity);
  // Closes the connections of peers that are revoked by now.
  void check_revocations();

  std::shared_ptr<Connection> dialled(asio::ip::tcp::socket socket);  // yet to be connected
  std::shared_ptr<Connection> admitted(TlsDoor::Guest guest);
  // This region's end of one that `via` carries; yet to shake hands.
  std::shared_ptr<Connection> carried(asio::local::stream_protocol::socket socket,
                                      const std::string& via, TlsRole role);

  // As this region stops: all of them, and those that are still made.
  void close();

 private:
  ConnectionSettings settings() const;
  std::shared_ptr<Connection> keep(std::shared_ptr<Connection> connection);

  const MeshOptions& options_;
  TlsContext context_;    // of those that we begin
  TlsContext answering_;  // of those that others begin by way of a third region
  std::vector<std::weak_ptr<Connection>> all_;
  bool closed_ = false;
};

}  // namespace causeway::inter
