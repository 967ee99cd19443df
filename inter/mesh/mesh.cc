#include "inter/mesh/mesh.h"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include <fmt/format.h>
#include <asio/error.hpp>
#include <asio/ip/address_v6.hpp>

#include "inter/base/error.h"
#include "inter/base/limits.h"
#include "inter/mesh/mesh_core.h"

namespace causeway::inter {
namespace {

[[noreturn]] void bad_address(const std::string& text, const std::string& problem) {
  throw std::system_error(Errc::bad_address,
                          "\"" + text + "\": " + problem +
                              "; expected HOST:PORT or [IPV6]:PORT with a port from 0 to 65535");
}

bool is_host_character(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         (character >= '0' && character <= '9') || character == '.' || character == '-' ||
         character == '_';
}

bool is_ipv6(const std::string& host) {
  std::error_code error;
  asio::ip::make_address_v6(host, error);
  return !error;
}

}  // namespace

Endpoint parse_endpoint(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) bad_address(text, "no port");
  Endpoint endpoint;
  endpoint.host = text.substr(0, colon);
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']')) {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
    if (!is_ipv6(endpoint.host)) bad_address(text, "no IPv6 address between the brackets");
  } else if (endpoint.host.empty() || !std::ranges::all_of(endpoint.host, is_host_character)) {
    bad_address(text, "not a host name or address");
  }
  const char* first = text.data() + colon + 1;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, endpoint.port);
  if (error != std::errc{} || end != last) bad_address(text, "not a port");
  return endpoint;
}

namespace {

// By errno; 0: another error.
std::string advice_to_listen(int error, std::uint16_t port) {
  if (error == EACCES && port > 0 && port < 1024)
    return "ports below 1024 are root's: give one from 1024 on";
  if (error == EACCES)
    return "a rule of this host forbids it (SELinux, net.ipv4.ip_unprivileged_port_start): give "
           "another port, or change the rule";
  if (error == EADDRNOTAVAIL)
    return "this host has no such address (yet): give one that it has, or 0.0.0.0 for all of them";
  return "end what uses it, or give another address of this host";
}

}  // namespace

void throw_cannot_listen(const Endpoint& bind, const std::error_code& reason) {
  const bool of_system = reason.category() == asio::error::get_system_category();
  const bool lacks_room =
      reason.value() == EMFILE || reason.value() == ENFILE || reason.value() == ENOMEM;
  if (of_system && lacks_room)  // nothing is wrong with the address
    throw std::system_error(reason.value(), std::generic_category(),
                            "cannot listen on " + to_string(bind));
  const bool passes =
      (of_system && (reason.value() == EADDRINUSE || reason.value() == EADDRNOTAVAIL)) ||
      reason == Errc::deadline || reason == asio::error::host_not_found_try_again;
  const auto try_again = std::make_error_code(std::errc::resource_unavailable_try_again);
  throw std::system_error(passes ? try_again : make_error_code(Errc::cannot_listen),
                          "cannot listen on " + to_string(bind) + " (" + reason.message() +
                              "): " + advice_to_listen(of_system ? reason.value() : 0, bind.port));
}

std::string to_string(const Endpoint& endpoint) {
  const bool ipv6 = endpoint.host.find(':') != std::string::npos;
  return fmt::format("{}:{}", ipv6 ? "[" + endpoint.host + "]" : endpoint.host, endpoint.port);
}

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

void Mesh::set_peers(const std::map<std::string, Endpoint>& peers,
                     const std::map<std::string, Endpoint>& second_addresses) {
  implementation_->core->set_peers(implementation_->core, peers, second_addresses);
}

void Mesh::drop_peers(const std::string& reason) {
  implementation_->core->drop_peers(reason);
}

bool Mesh::is_up(const std::string& peer) const {
  const Peer* const found = implementation_->core->find(peer);
  return found != nullptr && found->session != nullptr;
}

void Mesh::send(const std::string& peer, std::string message) {
  const MeshCore& core = *implementation_->core;
  if (message.size() > core.options().message_bytes_max) {
    throw std::system_error(Errc::frame_too_large,
                            fmt::format("a message of {} bytes to {}; at most {}", message.size(),
                                        peer, core.options().message_bytes_max));
  }
  if (is_up(peer)) core.find(peer)->for_messages().send(message);
}

void Mesh::push_blob(const std::string& peer, const BlobId& id) {
  implementation_->core->push_blob(peer, id);
}

void Mesh::fetch_blob(const std::string& peer, const BlobId& id) {
  const Peer* const found = implementation_->core->find(peer);
  if (found != nullptr && found->linked()) found->session->fetch(id);
}

void Mesh::forgo_blob(const std::string& peer, const BlobId& id) {
  implementation_->core->forgo_blob(peer, id);
}

std::map<std::string, LinkStats> Mesh::stats() const {
  std::map<std::string, LinkStats> stats;
  for (const auto& [name, peer] : implementation_->core->peers()) {
    const LinkMeter& meter = peer->meter;
    stats[name] = {.up = peer->linked(),
                   .via = peer->session ? peer->for_messages().via() : std::string(),
                   .tx_bytes = peer->carried.traffic->tx_bytes,
                   .rx_bytes = peer->carried.traffic->rx_bytes,
                   .connects = peer->carried.connects,
                   .round_trip = meter.round_trip(),
                   .data_connections = peer->linked() ? peer->session->data_connections() : 0,
                   .rate_bytes_per_s = meter.rate_bytes_per_s(),
                   .rate_p50_bytes_per_s = meter.rate_quantile_bytes_per_s(0.5),
                   .rate_p05_bytes_per_s = meter.rate_quantile_bytes_per_s(0.05),
                   .stream_rate_bytes_per_s = meter.stream_rate_bytes_per_s(),
                   .loss = meter.loss(),
                   .segment_bytes = meter.segment_bytes()};
  }
  for (const auto& [name, carried] : implementation_->core->removed()) {
    stats[name] = {.tx_bytes = carried.traffic->tx_bytes,
                   .rx_bytes = carried.traffic->rx_bytes,
                   .connects = carried.connects,
                   .removed = true};
  }
  return stats;
}

Mesh::Hashing Mesh::hashing() const {
  const Verifier& verifier = implementation_->core->intake().verifier();
  return {verifier.hashed_bytes(), verifier.cpu_time()};
}

}  // namespace causeway::inter
