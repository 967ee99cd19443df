// Named states of the protocol, at each of which a test kills the process as a power failure would
// (docs/faults.md). `causeway protocol-states` lists them.
//
// CAUSEWAY_DIE_AT=FILE: the process that first reaches the state that FILE names removes the file
// and is gone with SIGKILL. Without the variable, or the file, nothing happens; nor does anything
// in a build without tests, which does not look for the variable.
#pragma once

#include <span>
#include <string_view>

namespace causeway::diloco {

// Whether this build can be made to fail on purpose: builds with tests can, others have no such
// code.
#ifdef CAUSEWAY_NO_FAULT_INJECTION
inline constexpr bool kFaultInjection = false;
#else
inline constexpr bool kFaultInjection = true;
#endif

enum class ProtocolState {
  // Of a coordinator.
  run_founded,
  run_joined,
  members_told,
  vote_saved,
  workers_gathered,
  train_ordered,
  payload_spooled,
  contribution_saved,
  contribution_pushed,
  contribution_acknowledged,
  payload_received,
  proposal_saved,
  entries_saved,
  record_committed,
  record_appended,
  apply_ordered,
  apply_heard,
  snapshot_spooled,
  snapshot_saved,
  payload_removed,
  continue_ordered,
  collect_ordered,
  restore_ordered,
  finish_ordered,
  run_ended,
  // Of a worker.
  attached,
  step_taken,
  steps_taken,
  contribution_encoded,
  contribution_stored,
  record_received,
  record_applied,
  apply_told,
  state_saved,
  snapshot_written,
  went_on,
  collected,
  restore_received,
  restored,
  finish_received,
  result_written,
};

struct NamedState {
  ProtocolState state;
  std::string_view name;    // "coordinator.run-founded"
  std::string_view occurs;  // once, round, cut-off, restore, end: what it takes to get there
  std::string_view meaning;
};

std::span<const NamedState> protocol_states();  // in the order of the enumeration

void die_if_asked(ProtocolState state);

// Marks that the process is in `state`.
inline void reached(ProtocolState state) {
  if constexpr (kFaultInjection) die_if_asked(state);
}

}  // namespace causeway::diloco
