#include <filesystem>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>

#include "diloco/coordinator/coordinator_core.h"
#include "diloco/files/fault_point.h"

namespace causeway::diloco {

// ---- To other regions ----

void Coordinator::Implementation::execute(const SendMessage& action) {
  mesh_->send(action.peer, serialize(action.message));
}

void Coordinator::Implementation::execute(const PushBlob& action) {
  mesh_->push_blob(action.peer, action.blob);
  reached(ProtocolState::contribution_pushed);
}

void Coordinator::Implementation::execute(const UpdateMembers& action) {
  const auto& origin = action.membership.origin;
  greeting_.parent_run_id = origin ? origin->run_id : "";
  const Membership before = std::exchange(members_, action.membership);
  // Whoever is removed is told before its links end.
  auto peers = dialled(members_);
  peers.merge(dialled(before));
  mesh_->set_peers(peers);
  farewell_.expires_after(options_.protocol.election);
  farewell_.async_wait([this](const std::error_code& error) {
    const bool linked = !error && !closing_ && storage_failure_.empty();
    if (linked) mesh_->set_peers(dialled(members_));
  });
  reached(ProtocolState::members_told);
}

// ---- To disk ----

void Coordinator::Implementation::execute(const RemoveBlob& action) {
  spool_->remove(action.blob);
  reached(ProtocolState::payload_removed);
}

void Coordinator::Implementation::execute(const SaveContributions& action) {
  ledger_->save(action.contributions);
  reached(ProtocolState::contribution_saved);
}

void Coordinator::Implementation::execute(const SaveSnapshot& action) {
  ledger_->save(action.snapshot);
  reached(ProtocolState::snapshot_saved);
}

void Coordinator::Implementation::execute(const SaveRaft& action) {
  ledger_->save_raft(action.term, action.vote, action.first_index, action.entries);
  reached(action.entries.empty()      ? ProtocolState::vote_saved
          : protocol_->raft().leads() ? ProtocolState::proposal_saved
                                      : ProtocolState::entries_saved);
}

void Coordinator::Implementation::execute(const AppendLedger& action) {
  reached(ProtocolState::record_committed);
  const auto& newest = protocol_->contribution();
  ledger_->append(action.entries,
                  newest ? std::optional(Applied{newest->round, newest->state}) : std::nullopt);
  reached(ProtocolState::record_appended);
}

// ---- To the worker ----

void Coordinator::Implementation::execute(const WelcomeWorker& action) {
  workers_->welcome(action.run_id, action.contributed);
}

void Coordinator::Implementation::execute(const OrderTrain& action) {
  workers_->train(action);
  last_order_ = without_contributing(action);
  reached(ProtocolState::train_ordered);
}

void Coordinator::Implementation::execute(const OrderContinue& action) {
  workers_->continue_training(action);
  reached(ProtocolState::continue_ordered);
}

void Coordinator::Implementation::execute(const OrderCollect& action) {
  workers_->collect(action.round);
  reached(ProtocolState::collect_ordered);
}

void Coordinator::Implementation::execute(const OrderApply& action) {
  std::vector<std::filesystem::path> payloads;
  for (const Participant& participant : action.record.participants) {
    payloads.push_back(spool_->path(participant.payload));
  }
  applying_ = action.record.round;
  workers_->apply(action.record, payloads);
  reached(ProtocolState::apply_ordered);
}

void Coordinator::Implementation::execute(const OrderRestore& action) {
  const Snapshot& snapshot = action.snapshot;
  files_->add_event("restore", {}, "takes version " + std::to_string(snapshot.version),
                    protocol_->version());
  const bool initial = snapshot.blob.size_bytes == 0;  // the worker makes it
  workers_->restore(snapshot.version, snapshot.state,
                    initial ? "/dev/null" : spool_->path(snapshot.blob), snapshot.blob.size_bytes);
  reached(ProtocolState::restore_ordered);
}

void Coordinator::Implementation::execute(const OrderFinish& action) {
  ledger_->save_finished(action.version, action.state);
  workers_->finish(action.version);
  reached(ProtocolState::finish_ordered);
}

void Coordinator::Implementation::execute(const EndRun& action) {
  reached(ProtocolState::run_ended);
  finish({action.exit_code, action.message});
}

void Coordinator::Implementation::execute(const Note& action) {
  const auto level = action.severity == Note::Severity::error     ? spdlog::level::err
                     : action.severity == Note::Severity::warning ? spdlog::level::warn
                                                                  : spdlog::level::info;
  spdlog::log(level, "{}: {}", options_.region, action.text);
  if (action.severity == Note::Severity::error) {
    files_->add_event("error", {}, action.text, protocol_->version());
  }
}

}  // namespace causeway::diloco
