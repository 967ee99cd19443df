// What the mesh knows of one peer: who of the two dials, and which link stays if both did.
#include "inter/mesh/mesh_core.h"

namespace causeway::inter {
namespace {

// FNV-1a: regions that share a seed must not share their jitter, and std::hash differs between
// libraries.
std::uint64_t jitter_seed(std::uint64_t seed, const std::string& self, const std::string& peer) {
  std::uint64_t hash = 14695981039346656037ULL ^ seed;
  const std::string names = self + "/" + peer;
  for (const char character : names) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 1099511628211ULL;
  }
  return hash;
}

}  // namespace

Peer::Peer(const asio::any_io_executor& executor, const Spool& spool, const MeshOptions& options_in,
           const std::string& name_in, const Endpoint& endpoint_in)
    : options(options_in),
      name(name_in),
      endpoint(endpoint_in),
      outgoing(spool, name_in),
      backoff(options.reconnect_delay_min, options.reconnect_delay_max,
              jitter_seed(options.seed, options.self, name_in)),
      retry(executor),
      detour_retry(executor),
      detour_backoff(options.reconnect_delay_min, options.reconnect_delay_max,
                     jitter_seed(options.seed, name_in, options.self)),
      nothing(spool, name_in) {}

bool Peer::we_dial_first() const {
  const bool one_way = options.dial_only || endpoint.host.empty();
  return one_way ? options.dial_only : options.self < name;
}

std::chrono::milliseconds Peer::dials_in() const {
  if (linked()) {
    return options.reconnect_delay_max;
  }
  const auto waits = we_dial_first() ? std::chrono::milliseconds(0) : options.second_dialler_delay;
  return std::chrono::ceil<std::chrono::milliseconds>(changed + waits -
                                                      std::chrono::steady_clock::now());
}

// Both dialled, and both ends keep the same link: that of who dials first. It is fresh then; an
// older one is dead where somebody dials anew.
bool Peer::keeps_link(bool we_dialled) const {
  return linked() && first_dialled && is_fresh() && we_dialled != we_dial_first();
}

bool Peer::is_fresh() const {
  return std::chrono::steady_clock::now() < changed + options.handshake_deadline;
}

std::string Peer::objection_to_link(const Connection& control) {
  if (!linked()) {
    return "";
  }
  if (keeps_link(false)) {
    return kOtherLinkReason;
  }
  if (!contest.is_on(changed, std::chrono::steady_clock::now())) {
    return "";
  }
  return "two processes use the certificate of " + name + ": one at " + session->remote() +
         ", whose link stays, and one at " + control.remote() +
         "; end one of them, and if it is not yours, `causeway certs revoke " + name + "`";
}

}  // namespace causeway::inter
