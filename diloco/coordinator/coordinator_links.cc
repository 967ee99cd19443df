#include <algorithm>
#include <optional>
#include <system_error>

#include <spdlog/spdlog.h>

#include "diloco/coordinator/coordinator_core.h"
#include "diloco/files/fault_point.h"

namespace causeway::diloco {

std::string Coordinator::Implementation::judge_greeting(const std::string& peer,
                                                        const std::string& greeting) {
  std::string reason;
  guard([&] {
    const Judgement judgement = judge(greeting_, peer, greeting);
    reason = judgement.reason;
    if (!reason.empty()) return refused(peer, reason, !judgement.peers_run_id.empty());
    refusals_.erase(peer);
    incarnations_[peer] = judgement.peers_incarnation;
    const bool learned = greeting_.run_id.empty() && !judgement.peers_run_id.empty() && !outcome_;
    if (!learned) return;
    greeting_.run_id = judgement.peers_run_id;
    ledger_->set_run_id(greeting_.run_id);
    reached(ProtocolState::run_joined);
    spdlog::info("{}: joins run {}", options_.region, greeting_.run_id);
    handle(RunIdLearned{greeting_.run_id});
  });
  return reason;
}

void Coordinator::Implementation::on_refused_by(const std::string& peer,
                                                const std::string& reason) {
  spdlog::error("{}: refused by {}: {}", options_.region, peer, reason);
  refused(peer, "refused by " + peer + ": " + reason, false);
}

// What separates this region from a run that it wants to join is final, and so is what separates it
// from so many that the others are no majority.
void Coordinator::Implementation::refused(const std::string& peer, const std::string& reason,
                                          bool by_the_run) {
  const RefusalKind kind = kind_of_refusal(reason);
  if (kind == RefusalKind::none) return;
  refusals_.insert(peer);
  const Membership& known = protocol_->membership();
  const std::size_t members =
      known.members.empty() ? options_.members.size() : known.members.size();
  const bool no_majority = members - std::min(members, refusals_.size()) < members / 2 + 1;
  const bool joins = greeting_.run_id.empty() && by_the_run;
  if (joins || no_majority) finish({static_cast<int>(kind), reason});
}

void Coordinator::Implementation::on_peer_up(const std::string& peer) {
  guard([&] { files_->add_event("peer_up", peer, {}, protocol_->version()); });
  handle(PeerUp{peer, incarnations_[peer]});
}

void Coordinator::Implementation::on_peer_down(const std::string& peer, const std::string& reason) {
  guard([&] { files_->add_event("peer_down", peer, reason, protocol_->version()); });
  handle(PeerDown{peer});
}

void Coordinator::Implementation::on_message(const std::string& peer, const std::string& bytes) {
  std::optional<Message> message;
  try {
    message = parse_message(bytes);
  } catch (const std::system_error& error) {
    spdlog::error("{}: a message from {} was ignored: {}", options_.region, peer, error.what());
    return;
  }
  handle(PeerSaid{peer, std::move(*message)});
}

void Coordinator::Implementation::on_blob(const std::string&, const inter::BlobId& id) {
  reached(ProtocolState::payload_received);
  handle(BlobArrived{id});
}

}  // namespace causeway::diloco
