// Coordinator: what it opens before it takes part, and what keeps it from that.
#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "diloco/coordinator/coordinator_core.h"
#include "diloco/coordinator/origin.h"
#include "diloco/files/error.h"
#include "diloco/files/fault_point.h"
#include "diloco/files/random_name.h"

namespace causeway::diloco {
namespace {

bool is_witness(const CoordinatorOptions& options) {
  const auto self = std::ranges::find(options.members, options.region, &Member::region);
  return self != options.members.end() && self->witness;
}

// One seed per disk, so that regions do not stand for election in step.
std::uint64_t seed_from(const std::string& incarnation) {
  return std::stoull(incarnation.substr(0, 16), nullptr, 16);
}

ProtocolOptions protocol_options(const CoordinatorOptions& options, const Ledger& ledger) {
  ProtocolOptions protocol = options.protocol;
  protocol.self = options.region;
  protocol.incarnation = ledger.incarnation();
  protocol.witness = is_witness(options);
  protocol.heartbeat = protocol.election / 4;
  protocol.seed = seed_from(ledger.incarnation());
  return protocol;
}

// Who takes part is the log's to say: a region that joins later is not in everybody's file.
std::string without_regions(const std::string& shared_config) {
  std::istringstream lines(shared_config);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("regions.name = ")) kept += line + "\n";
  }
  return kept;
}

Membership configured_membership(const CoordinatorOptions& options) {
  Membership membership;
  for (const Member& member : options.members) membership = with(membership, member);
  return membership;
}

// Why these options cannot work; empty if they can.
std::string objection(const CoordinatorOptions& options) {
  const Membership membership = configured_membership(options);
  if (membership.find(options.region) == nullptr) {
    return "region " + options.region + " is not among the run's regions";
  }
  if (options.protocol.contributions_min > membership.regions().size()) {
    return "a round cannot need " + std::to_string(options.protocol.contributions_min) +
           " contributions from " + std::to_string(membership.regions().size()) + " regions";
  }
  return {};
}

}  // namespace

// The region's lineage: founding, joining and resuming are explicit.
std::optional<Outcome> Coordinator::Implementation::open_ledger() {
  if (const std::string text = objection(options_); !text.empty()) return Outcome{2, text};
  std::filesystem::create_directories(options_.directory);
  const std::string directory = options_.directory.string();
  signing_key_.emplace(options_.mesh.credentials.key);
  ledger_.emplace(options_.directory / "ledger",
                  [this](const std::string& content) { return signing_key_->sign(content); });
  const bool founds = options_.start == Start::found || options_.start == Start::fork;
  if (!ledger_->run_id().empty()) {
    if (!founds) return std::nullopt;
    return Outcome{4, directory + " already holds run " + ledger_->run_id() +
                          ": start without --found or --fork to resume it, or use another "
                          "directory"};
  }
  if (options_.start == Start::join) return std::nullopt;
  if (founds) {
    found_run();
    return std::nullopt;
  }
  return Outcome{4,
                 directory +
                     " holds no run: start one region with --found to begin a new run (--fork to "
                     "begin with another run's weights), and the others with --join to take "
                     "part"};
}

// The first entry of a new log says who may take part; so far only the founder votes.
void Coordinator::Implementation::found_run() {
  Membership membership = configured_membership(options_);
  Member self = *membership.find(options_.region);
  self.incarnation = ledger_->incarnation();
  membership = with(membership, std::move(self));
  if (options_.start == Start::fork) {
    membership.origin = take_origin(options_.parent, options_.directory / "spool");
    ledger_->save(Snapshot{0, membership.origin->state, membership.origin->blob});
    spdlog::info("{}: forks run {} at version {}", options_.region, membership.origin->run_id,
                 membership.origin->version);
  }
  ledger_->found(random_name(), {.term = 1, .body = membership});
  reached(ProtocolState::run_founded);
}

void Coordinator::Implementation::open_protocol() {
  const std::uint64_t capacity_bytes = options_.protocol.spool_bytes == 0
                                           ? std::numeric_limits<std::uint64_t>::max()
                                           : options_.protocol.spool_bytes;
  spool_.emplace(options_.directory / "spool", capacity_bytes);
  files_.emplace(options_.directory, options_.region);
  const std::vector<inter::BlobId> blobs = spool_->complete();
  protocol_.emplace(protocol_options(options_, *ledger_),
                    PersistentState{.run_id = ledger_->run_id(),
                                    .raft = ledger_->raft(),
                                    .contributions = ledger_->contributions(),
                                    .snapshot = ledger_->snapshot(),
                                    .finished = ledger_->finished(),
                                    .blobs = {blobs.begin(), blobs.end()}});
  refuse_anothers_directory();
}

// What another region promised in it, this one must not go on with.
void Coordinator::Implementation::refuse_anothers_directory() const {
  for (const Member& member : protocol_->membership().members) {
    if (member.region == options_.region || member.incarnation != ledger_->incarnation()) continue;
    throw std::system_error(make_error_code(Errc::lineage),
                            options_.directory.string() + " is that of region " + member.region +
                                ": give " + options_.region + " its own with --directory");
  }
}

void Coordinator::Implementation::open_links() {
  greeting_ = {.run_id = ledger_->run_id(),
               .region = options_.region,
               .incarnation = ledger_->incarnation(),
               .shared_config = without_regions(options_.shared_config),
               .version = protocol_->version()};
  if (const auto& origin = protocol_->membership().origin) greeting_.parent_run_id = origin->run_id;
  inter::MeshOptions mesh = options_.mesh;
  mesh.self = options_.region;
  mesh.greeting = serialize(greeting_);
  members_ = protocol_->membership();
  mesh.peers = dialled(members_);
  mesh_.emplace(executor_, std::move(mesh), *spool_, *this);
  mesh_->start();
  listening_port_ = mesh_->listening_port();
  files_->write_listening_port(listening_port_);
  open_workers();
  operator_door_.emplace(executor_, options_.directory,
                         [this](const ChangeMember& change) { handle(OperatorAsked{change}); });
  operator_door_->start();
  spdlog::info("{}: run {}, round {}, listening on port {}", options_.region,
               greeting_.run_id.empty() ? "not known yet" : greeting_.run_id, greeting_.version,
               listening_port_);
}

void Coordinator::Implementation::open_workers() {
  workers_.emplace(executor_,
                   WorkerServerOptions{.socket = options_.directory / "worker.sock",
                                       .region = options_.region,
                                       .workers = options_.workers,
                                       .settings = options_.shared_config,
                                       .rank_wait = options_.rank_wait},
                   *this);
  if (options_.worker_listen) {
    const std::uint16_t port = workers_->listen(*options_.worker_listen, options_.mesh.credentials);
    spdlog::info("{}: workers on other hosts attach at port {}", options_.region, port);
  }
  workers_->start();
}

// Where to dial the members: as configured here, which may know better than the log; else as the
// log says. Before the log is known, all that are configured.
std::map<std::string, inter::Endpoint> Coordinator::Implementation::dialled(
    const Membership& membership) const {
  const Membership configured = configured_membership(options_);
  std::map<std::string, inter::Endpoint> peers;
  for (const Member& member : (membership.members.empty() ? configured : membership).members) {
    if (member.region == options_.region) continue;
    const Member* known = configured.find(member.region);
    const std::string& address = known == nullptr ? member.address : known->address;
    peers[member.region] = address.empty() ? inter::Endpoint{} : inter::parse_endpoint(address);
  }
  return peers;
}

}  // namespace causeway::diloco
