#include "inter/mesh/mesh.h"

#include <algorithm>

#include "inter/base/limits.h"
#include "inter/mesh/mesh_core.h"

namespace causeway::inter {

class Mesh::Implementation {
 public:
  std::shared_ptr<MeshCore> core;
};

std::uint64_t peak_bytes(const MeshOptions& options, std::uint64_t spool_capacity_bytes) {
  const std::uint64_t message = kFrameHeaderBytes + options.message_bytes_max;
  const std::uint64_t chunk_frame = 2 * kChunkBytesMax;  // with what the parser reads beyond it
  const std::uint64_t control = kTlsBytes + kGatheredBytes + kQueuedMessagesMax * message +
                                kQueuedFramesBytes +
                                2 * message;  // one being parsed, one being handled
  const std::uint64_t detour = kRelayedWaitingMax + 3 * kRelayedBytesMax;
  const std::uint64_t data = kTlsBytes + kGatheredBytes + 2 * chunk_frame;
  const std::uint64_t connections =
      std::max<std::uint64_t>(options.data_connections, kDataConnectionsMax);
  const std::uint64_t maps =
      4 * (std::min(spool_capacity_bytes, kBlobBytesMax) / kSmallChunkBytes / 8);
  const std::uint64_t strangers = 2 * kUnauthenticatedMax;  // before and after their certificate
  return options.peers.size() * (control + detour + connections * data) + strangers * kTlsBytes +
         kHashReadBytes + maps;
}

Mesh::Mesh(asio::any_io_executor executor, MeshOptions options, Spool& spool, MeshHandler& handler)
    : implementation_(new Implementation{
          std::make_shared<MeshCore>(std::move(executor), std::move(options), spool, handler)}) {}

Mesh::~Mesh() {
  implementation_->core->shut_down();
}

void Mesh::start() {
  MeshCore::start(implementation_->core);
}

asio::awaitable<void> Mesh::stop() {
  const auto core = implementation_->core;
  core->shut_down();
  co_await core->join();
}

std::uint16_t Mesh::listening_port() const {
  return implementation_->core->listening_port();
}

void Mesh::set_peers(const std::map<std::string, Endpoint>& peers) {
  implementation_->core->set_peers(implementation_->core, peers);
}

bool Mesh::is_up(const std::string& peer) const {
  const Peer* const found = implementation_->core->find(peer);
  return found != nullptr && found->session != nullptr;
}

void Mesh::send(const std::string& peer, std::string message) {
  const MeshCore& core = *implementation_->core;
  if (message.size() > core.options().message_bytes_max) {
    throw std::system_error(Errc::frame_too_large,
                            "a message of " + std::to_string(message.size()) + " bytes to " + peer +
                                "; at most " + std::to_string(core.options().message_bytes_max));
  }
  if (is_up(peer)) {
    core.find(peer)->session->send(message);
  }
}

void Mesh::push_blob(const std::string& peer, const BlobId& id) {
  implementation_->core->push_blob(peer, id);
}

void Mesh::fetch_blob(const std::string& peer, const BlobId& id) {
  const Peer* const found = implementation_->core->find(peer);
  if (found != nullptr && found->linked()) {
    found->session->fetch(id);
  }
}

std::map<std::string, LinkStats> Mesh::stats() const {
  std::map<std::string, LinkStats> stats;
  for (const auto& [name, peer] : implementation_->core->peers()) {
    const LinkMeter& meter = peer->meter;
    stats[name] = {.up = peer->linked(),
                   .via = peer->session ? peer->session->via() : std::string(),
                   .tx_bytes = peer->traffic->tx_bytes,
                   .rx_bytes = peer->traffic->rx_bytes,
                   .connects = peer->connects,
                   .round_trip = meter.round_trip(),
                   .data_connections = peer->linked() ? peer->session->data_connections() : 0,
                   .rate_bytes_per_s = meter.rate_bytes_per_s(),
                   .rate_p50_bytes_per_s = meter.rate_quantile_bytes_per_s(0.5),
                   .rate_p05_bytes_per_s = meter.rate_quantile_bytes_per_s(0.05),
                   .stream_rate_bytes_per_s = meter.stream_rate_bytes_per_s(),
                   .loss = meter.loss(),
                   .segment_bytes = meter.segment_bytes()};
  }
  return stats;
}

Mesh::Hashing Mesh::hashing() const {
  const Verifier& verifier = implementation_->core->intake().verifier();
  return {verifier.hashed_bytes(), verifier.cpu_time()};
}

}  // namespace causeway::inter
