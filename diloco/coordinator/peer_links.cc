#include "diloco/coordinator/peer_links.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>

#include "diloco/files/fault_point.h"
#include "inter/mesh/namesakes.h"

namespace causeway::diloco {
namespace {

// So often a member greets with another run until it is believed that it stays there.
constexpr int kOtherRunGreetings = 4;

// Who takes part is the log's to say: a region that joins later is not in everybody's file.
std::string without_regions(const std::string& shared_config) {
  std::istringstream lines(shared_config);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("regions.name = ")) kept += line + "\n";
  }
  return kept;
}

std::string parent_of(const Membership& membership) {
  return membership.origin ? membership.origin->run_id : "";
}

// Always as things stand: whoever greets with what it knew when it started keeps out a region that
// lost its disk and knows less.
Greeting greeting_of(const CoordinatorContext& context) {
  return {.run_id = context.directory.ledger().run_id(),
          .region = context.options.region,
          .incarnation = context.directory.ledger().incarnation(),
          .shared_config = without_regions(context.options.shared_config),
          .version = context.protocol().version(),
          .parent_run_id = parent_of(context.protocol().membership()),
          .process = context.options.process};
}

}  // namespace

inter::Endpoint endpoint_of(const Member& member) {
  if (member.address.empty()) return {};
  try {
    return inter::parse_endpoint(member.address);
  } catch (const std::system_error& error) {
    spdlog::warn("the address of {} in the run's log is not valid ({}): it is not dialled",
                 member.region, error.what());
    return {};
  }
}

Dialled dialled(const CoordinatorOptions& options, const Membership& membership,
                const std::set<std::string>& moved) {
  const Membership configured = configured_membership(options);
  Dialled all;
  for (const Member& member : (membership.members.empty() ? configured : membership).members) {
    if (member.region == options.region) continue;
    const Member* known = configured.find(member.region);
    inter::Endpoint& first = all.first[member.region];
    first = endpoint_of(known == nullptr ? member : *known);
    const inter::Endpoint newest = endpoint_of(member);
    if (!moved.contains(member.region) || newest.host.empty() || newest == first) continue;
    if (first.host.empty()) {
      first = newest;
    } else {
      all.second[member.region] = newest;
    }
  }
  return all;
}

PeerLinks::PeerLinks(CoordinatorContext context)
    : context_(std::move(context)),
      members_(context_.protocol().membership()),
      farewell_(context_.executor),
      mesh_(context_.executor, mesh_options(), context_.directory.spool(), *this) {}

inter::MeshOptions PeerLinks::mesh_options() {
  inter::MeshOptions mesh = context_.options.mesh;
  mesh.self = context_.options.region;
  mesh.late_answer =
      std::max(mesh.late_answer,
               std::chrono::ceil<std::chrono::milliseconds>(context_.options.protocol.election));
  Dialled all = dialled_now();
  const Membership configured = configured_membership(context_.options);
  for (const auto& [peer, endpoint] : all.first)
    if (configured.find(peer) == nullptr) mesh.named_by_others.insert(peer);
  mesh.peers = std::move(all.first);
  mesh.second_addresses = std::move(all.second);
  return mesh;
}

// The log says of each second address once that there is one: only people know which is right.
Dialled PeerLinks::dialled_now() {
  Dialled all = dialled(context_.options, members_, context_.protocol().moved());
  for (const auto& [peer, newest] : all.second) {
    if (std::exchange(told_[peer], newest) == newest) continue;
    const std::string here = inter::to_string(all.first.at(peer)), there = inter::to_string(newest);
    spdlog::warn(
        "{0}: this host's file says that {1} is at {2}, and the run says that it moved to {3} "
        "(`causeway members add`). Both are dialled, {2} first. If {1} cannot be reached there any "
        "more, write {3} into the file",
        context_.options.region, peer, here, there);
  }
  return all;
}

void PeerLinks::start() {
  mesh_.start();
  listening_port_ = mesh_.listening_port();
  context_.directory.files().write_listening_port(listening_port_);
}

std::vector<std::string> PeerLinks::up() const {
  std::vector<std::string> up;
  for (const auto& [peer, link] : mesh_.stats())
    if (link.up) up.push_back(peer);
  return up;
}

asio::awaitable<void> PeerLinks::stop() {
  farewell_.cancel();
  co_await mesh_.stop();
}

// ---- What is said to them ----

// A message that no link takes would be made again at the next start: what waits for it waits.
void PeerLinks::carry_out(const SendMessage& action) {
  try {
    mesh_.send(action.peer, serialize(action.message));
  } catch (const std::system_error& error) {
    if (error.code() != inter::Errc::frame_too_large) throw;
    if (const auto more = oversized_.note(action.peer))
      spdlog::error("{}: {}. It was not sent{}", context_.options.region, error.what(), *more);
  }
}

void PeerLinks::carry_out(const PushBlob& action) {
  mesh_.push_blob(action.peer, action.blob);
  reached(ProtocolState::contribution_pushed);
}

void PeerLinks::carry_out(const UpdateMembers& action) {
  const Membership before = std::exchange(members_, action.membership);
  // Whoever is removed is told before its links end.
  Dialled all = dialled_now();
  all.first.merge(dialled(context_.options, before, {}).first);
  mesh_.set_peers(all.first, all.second);
  farewell_.expires_after(context_.options.protocol.election);
  farewell_.async_wait([this](const std::error_code& error) {
    const bool linked = !error && !context_.ending.closing() && !context_.ending.storage_fails();
    if (!linked) return;
    const Dialled now = dialled_now();
    mesh_.set_peers(now.first, now.second);
  });
  reached(ProtocolState::members_told);
}

// ---- What they say ----

std::string PeerLinks::greeting() {
  return serialize(greeting_of(context_));
}

std::string PeerLinks::judge_greeting(const std::string& peer, const std::string& greeting) {
  std::string reason;
  context_.ending.guard([&] {
    const Greeting ours = greeting_of(context_);
    const Judgement judgement = judge(ours, peer, greeting);
    reason = judgement.reason;
    const bool other_run = judgement.kind == RefusalKind::lineage;
    if (!other_run) other_runs_.erase(peer);
    with_nothing_.erase(peer);
    if (judgement.comes_with_nothing) with_nothing_.insert(peer);
    if (other_run && is_of_another_run(peer, judgement.peers_run_id)) {
      reason = context_.options.region + " begins again in run " + judgement.peers_run_id;
      return change_run_id(judgement.peers_run_id);
    }
    if (!reason.empty()) {
      return refused(peer, judgement.kind, reason, !judgement.peers_run_id.empty());
    }
    refusals_.erase(peer);
    incarnations_[peer] = judgement.peers_incarnation;
    const bool learned = ours.run_id.empty() && !judgement.peers_run_id.empty();
    if (learned && !context_.ending.outcome()) learn_run_id(judgement.peers_run_id);
  });
  return reason;
}

// A joiner takes the first word for it, as there may be no other. Until the log has its first
// entry, that of the founder or of most others is better. Returns whether that is so of this one.
bool PeerLinks::is_of_another_run(const std::string& peer, const std::string& run_id) {
  OtherRun& other = other_runs_[peer];
  if (std::exchange(other.run_id, run_id) != run_id) other.greetings = 0;
  ++other.greetings;
  const bool founds =
      context_.options.start != Start::join && context_.options.start != Start::resume;
  if (context_.directory.ledger().committed() > 0 || founds) return false;
  const auto alike = std::ranges::count_if(
      other_runs_, [&](const auto& one) { return one.second.run_id == run_id; });
  const auto others = static_cast<std::ptrdiff_t>(context_.options.members.size()) - 1;
  return peer == context_.options.founder || 2 * alike > others;
}

void PeerLinks::change_run_id(const std::string& run_id) {
  if (!context_.ending.going_on()) return;
  spdlog::warn("{}: was told that this is run {}, but no record of it came: joins run {} instead",
               context_.options.region, context_.directory.ledger().run_id(), run_id);
  context_.directory.ledger().change_run_id(run_id);
  context_.ending.begin_again();
}

void PeerLinks::learn_run_id(const std::string& run_id) {
  context_.directory.ledger().set_run_id(run_id);
  reached(ProtocolState::run_joined);
  spdlog::info("{}: joins run {}", context_.options.region, run_id);
  context_.driver.handle(RunIdLearned{run_id});
}

void PeerLinks::cut(const std::string& reason) {
  cut_ = mesh_.stats();
  for (auto& [peer, link] : *cut_) link.up = false;
  mesh_.drop_peers(reason);
}

void PeerLinks::on_refused_by(const std::string& peer, const inter::LinkError& refusal) {
  const RefusalKind kind = kind_of_refusal(refusal);
  const std::string reason = "refused by " + peer + ": " + refusal.reason();
  // What may pass is said, and counted, with every other link that does not come up.
  if (kind != RefusalKind::none) spdlog::error("{}: {}", context_.options.region, reason);
  if (refusal.reason().find(inter::kTwoProcesses) != std::string::npos) namesake_ = reason;
  refused(peer, kind, reason, false);
}

// What separates this region from a run that it wants to join is final, and so is what separates it
// from so many that the others are no majority.
void PeerLinks::refused(const std::string& peer, RefusalKind kind, const std::string& reason,
                        bool by_the_run) {
  if (kind == RefusalKind::none) return;
  refusals_[peer] = kind;
  const Membership& known = context_.protocol().membership();
  const std::size_t members =
      known.members.empty() ? context_.options.members.size() : known.members.size();
  const bool no_majority = members - std::min(members, refusals_that_count()) < members / 2 + 1;
  const bool nobody_else = incarnations_.empty() && ++refused_[peer] >= kOtherRunGreetings;
  const bool joins = context_.directory.ledger().run_id().empty() && by_the_run &&
                     (ends_joiners(peer) || nobody_else);
  if (joins || no_majority) context_.ending.finish({static_cast<int>(kind), reason});
}

// Another one may say of the run what is not so.
bool PeerLinks::ends_joiners(const std::string& peer) const {
  const CoordinatorOptions& options = context_.options;
  return options.founder.empty() || peer == options.founder || options.members.size() <= 2;
}

// Whoever lost its disk and founded another run is to come back, and ends no region that still has
// what was trained. A member that got no vote yet may have been told of another run, and learn
// better. Once others vote here, the run goes on without it.
bool PeerLinks::counts(const std::string& peer, RefusalKind kind) const {
  if (kind == RefusalKind::lineage && with_nothing_.contains(peer)) return false;
  const Membership& known = context_.protocol().membership();
  const Member* const member = known.find(peer);
  const bool waits_for_its_vote = member != nullptr && member->incarnation.empty();
  if (kind != RefusalKind::lineage || !waits_for_its_vote || known.members.size() <= 2) return true;
  const auto other = other_runs_.find(peer);
  return known.voters() < 2 && other != other_runs_.end() &&
         other->second.greetings >= kOtherRunGreetings;
}

std::size_t PeerLinks::refusals_that_count() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      refusals_, [this](const auto& one) { return counts(one.first, one.second); }));
}

void PeerLinks::add_event(const std::string& event, const std::string& peer,
                          const std::string& text) {
  const auto more = events_.take(event + " " + peer);
  if (!more) return;
  std::string said = text + *more;
  if (said.starts_with(' ')) said.erase(0, 1);
  context_.ending.guard([&] { context_.add_event(event, peer, said); });
}

void PeerLinks::on_peer_up(const std::string& peer, const std::string& via) {
  if (via.empty()) namesake_.clear();
  const std::string text = via.empty() ? "" : "by way of " + via;
  add_event("peer_up", peer, text);
  context_.driver.handle(PeerUp{peer, incarnations_[peer], via});
}

void PeerLinks::on_peer_down(const std::string& peer, const std::string& reason) {
  add_event("peer_down", peer, reason);
  context_.driver.handle(PeerDown{peer});
}

void PeerLinks::on_message(const std::string& peer, const std::string& bytes) {
  std::optional<Message> message;
  try {
    message = parse_message(bytes);
  } catch (const std::system_error& error) {
    spdlog::error("{}: a message from {} was ignored: {}", context_.options.region, peer,
                  error.what());
    return;
  }
  const auto* const holding = std::get_if<Holding>(&*message);
  if (holding != nullptr && holding->contribution.region == peer)
    costs_[peer] = std::max(costs_[peer], holding->contribution.egress_cost);
  context_.driver.handle(PeerSaid{peer, std::move(*message)});
}

void PeerLinks::on_blob(const std::string&, const inter::BlobId& id) {
  reached(ProtocolState::payload_received);
  context_.driver.handle(BlobArrived{id});
}

}  // namespace causeway::diloco
