#include "diloco/files/fault_point.h"

#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

namespace causeway::diloco {
namespace {

using enum ProtocolState;

// What a build without tests does not use, it does not contain.
[[maybe_unused]] constexpr NamedState kStates[] = {
    {run_founded, "coordinator.run-founded", "once", "the ledger has its first entry"},
    {run_joined, "coordinator.run-joined", "once", "the run's id is on disk, and nothing else"},
    {members_told, "coordinator.members-told", "once", "the log has named the members"},
    {vote_saved, "coordinator.vote-saved", "once", "a promise is on disk, and nobody was told"},
    {workers_gathered, "coordinator.workers-gathered", "once", "all ranks have attached"},
    {train_ordered, "coordinator.train-ordered", "round", "the worker was told to train"},
    {payload_spooled, "coordinator.payload-spooled", "round",
     "the own payload is on disk, its description is not"},
    {contribution_saved, "coordinator.contribution-saved", "round",
     "both are, and nobody was told"},
    {contribution_pushed, "coordinator.contribution-pushed", "round",
     "it was announced to a region and its payload is under way"},
    {contribution_acknowledged, "coordinator.contribution-acknowledged", "round",
     "the worker knows that it is on disk"},
    {payload_received, "coordinator.payload-received", "round",
     "another region's payload is on disk, and nobody was told"},
    {proposal_saved, "coordinator.proposal-saved", "round",
     "the leader has an entry on disk, and nobody else has it"},
    {entries_saved, "coordinator.entries-saved", "round",
     "a follower has entries on disk, and nobody was told"},
    {record_committed, "coordinator.record-committed", "round",
     "a record is committed, and not in this region's ledger"},
    {record_appended, "coordinator.record-appended", "round",
     "it is in the ledger, and nothing was done about it"},
    {apply_ordered, "coordinator.apply-ordered", "round", "the worker was told to apply it"},
    {apply_heard, "coordinator.apply-heard", "round", "the worker has applied it"},
    {snapshot_spooled, "coordinator.snapshot-spooled", "round",
     "a snapshot is in the spool, and no file says so"},
    {snapshot_saved, "coordinator.snapshot-saved", "round",
     "it is this region's newest, and the one before is still there"},
    {payload_removed, "coordinator.payload-removed", "round",
     "a payload that nobody needs is gone"},
    {continue_ordered, "coordinator.continue-ordered", "cut-off",
     "the worker was told to go on alone"},
    {collect_ordered, "coordinator.collect-ordered", "cut-off",
     "it was asked for what it did meanwhile"},
    {restore_ordered, "coordinator.restore-ordered", "restore",
     "the worker was told to take a snapshot"},
    {finish_ordered, "coordinator.finish-ordered", "end",
     "the worker was told that the run is over"},
    {run_ended, "coordinator.run-ended", "end", "this region may leave the run"},
    {attached, "worker.attached", "once", "the region's ranks and their coordinator have met"},
    {step_taken, "worker.step-taken", "round", "one inner step of the round is done"},
    {steps_taken, "worker.steps-taken", "round", "all are, and nothing is encoded"},
    {contribution_encoded, "worker.contribution-encoded", "round",
     "the residual has changed, and the coordinator knows nothing"},
    {contribution_stored, "worker.contribution-stored", "round",
     "the coordinator has the contribution, and no state on disk knows"},
    {record_received, "worker.record-received", "round", "a record is to be applied"},
    {record_applied, "worker.record-applied", "round", "it is, and the coordinator does not know"},
    {apply_told, "worker.apply-told", "round", "the coordinator knows, and no state was saved"},
    {state_saved, "worker.state-saved", "round", "the state is on disk, its snapshot is not"},
    {snapshot_written, "worker.snapshot-written", "round",
     "the snapshot is, and the coordinator does not know"},
    {went_on, "worker.went-on", "cut-off", "steps were taken that no contribution holds"},
    {collected, "worker.collected", "cut-off", "a contribution holds them"},
    {restore_received, "worker.restore-received", "restore", "a snapshot is to be taken"},
    {restored, "worker.restored", "restore", "it was, and is on disk"},
    {finish_received, "worker.finish-received", "end",
     "the run is over, the result is not written"},
    {result_written, "worker.result-written", "end", "it is"},
};
static_assert(std::size(kStates) == static_cast<std::size_t>(result_written) + 1);

// Of several processes that are there at once, one.
[[maybe_unused]] bool is_to_die_at(const char* file, std::string_view name) {
  std::string armed;
  std::getline(std::ifstream(file), armed);
  return armed == name && ::unlink(file) == 0;
}

}  // namespace

std::span<const NamedState> protocol_states() {
  if constexpr (kFaultInjection) return kStates;
  return {};
}

void die_if_asked([[maybe_unused]] ProtocolState state) {
  if constexpr (kFaultInjection) {
    const char* file = std::getenv("CAUSEWAY_DIE_AT");
    const std::string_view name = kStates[static_cast<std::size_t>(state)].name;
    if (file != nullptr && is_to_die_at(file, name)) ::kill(::getpid(), SIGKILL);
  }
}

}  // namespace causeway::diloco
