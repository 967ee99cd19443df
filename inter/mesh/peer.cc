#include "inter/mesh/peer.h"

namespace causeway::inter {
namespace {

// FNV-1a: regions that share a seed must not share their jitter, and std::hash differs between
// libraries.
std::uint64_t jitter_seed(std::uint64_t seed, const std::string& self, const std::string& peer) {
  std::uint64_t hash = 14695981039346656037ULL ^ seed;
  const std::string names = self + "/" + peer;
  for (const char character : names)
    hash = (hash ^ static_cast<unsigned char>(character)) * 1099511628211ULL;
  return hash;
}

// The places: "at ADDRESS" or "by way of REGION". The other's port changes with each of its
// connections, and would make a new line of each.
std::string two_processes(const std::string& name, const std::string& stays,
                          const std::string& other) {
  return kTwoProcesses + name + ": one " + stays + ", whose link stays, and one " + other +
         "; end one of them, and if it is not yours, `causeway certs revoke " + name + "`";
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
      answers(options.late_answer),
      detours{.retry = asio::steady_timer(executor),
              .backoff = Backoff(options.reconnect_delay_min, options.reconnect_delay_max,
                                 jitter_seed(options.seed, name_in, options.self)),
              .nothing = BlobSender(spool, name_in)} {}

Backoff Peer::backoff_of(unsigned connection) const {
  return {options.reconnect_delay_min, options.reconnect_delay_max,
          jitter_seed(options.seed + 1 + connection, options.self, name)};
}

void Peer::close(std::error_code code, const std::string& reason) {
  if (beside) beside->close(code, reason);
  if (session) session->close(code, reason);
}

std::vector<Endpoint> Peer::addresses() const {
  std::vector<Endpoint> all = {endpoint};
  const auto second = options.second_addresses.find(name);
  if (second != options.second_addresses.end()) all.push_back(second->second);
  return all;
}

bool Peer::we_dial_first() const {
  const bool one_way = options.dial_only || endpoint.host.empty();
  return one_way ? options.dial_only : options.self < name;
}

std::chrono::milliseconds Peer::dials_in() const {
  if (linked()) return options.reconnect_delay_max;
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

std::string Peer::objection_to_link(const Connection& control, const std::string& process) {
  const std::string from = "at " + control.remote_host();
  if (namesakes.compete(process)) return objection_to_namesake(process, from);
  if (!linked()) return "";
  if (keeps_link(false)) return kOtherLinkReason;
  // One that ends as it begins, and is started again each time, is no sign of two.
  if (namesakes.is_another(process)) return "";
  const bool contested = contest.is_on(changed, std::chrono::steady_clock::now());
  return contested ? two_processes(name, "at " + session->remote(), from) : "";
}

std::string Peer::objection_to_namesake(const std::string& process, const std::string& from) const {
  if (!session || !namesakes.stays_out(process)) return "";
  const std::string via = session->via();
  return two_processes(name, via.empty() ? "at " + session->remote() : "by way of " + via, from);
}

std::string Peer::reason_to_replace(const Connection& control, const std::string& process) const {
  return namesakes.compete(process)
             ? two_processes(name, "at " + control.remote(), "at " + session->remote()) +
                   ". The former began first"
             : "the region connected anew";
}

}  // namespace causeway::inter
