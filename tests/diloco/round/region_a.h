// Region a of a run, for tests of what acts on a region: its options, its log, and contributions.
#pragma once

#include <string>
#include <vector>

#include "diloco/region/region.h"

namespace causeway::diloco {

inline ProtocolOptions options_of_a() {
  ProtocolOptions options;
  options.self = "a";
  options.incarnation = "a's disk";
  options.pace.k = 4;
  options.pace.steps = 400;
  return options;
}

inline PersistentState state_of_a(const std::vector<std::string>& members) {
  Membership membership;
  for (const std::string& region : members) {
    Member member;
    member.region = region;
    member.incarnation = region + "'s disk";
    membership = with(membership, member);
  }
  PersistentState state;
  state.run_id = "run1";
  state.raft.term = 1;
  state.raft.log = {{.term = 1, .body = membership}};
  state.raft.committed = 1;
  return state;
}

// The same after so many rounds. `listed`: the participants of each.
template <typename Listed>
PersistentState state_of_a(const std::vector<std::string>& members, Round rounds, Listed listed) {
  PersistentState state = state_of_a(members);
  for (Round round = 0; round < rounds; ++round) {
    CommitRecord record;
    record.run_id = "run1";
    record.round = round;
    record.next_k = 4;
    record.participants = listed(round);
    state.raft.log.push_back({.term = 1, .body = record});
  }
  state.raft.committed = state.raft.log.size();
  return state;
}

// And nobody contributed to them.
inline PersistentState state_of_a(const std::vector<std::string>& members, Round rounds) {
  return state_of_a(members, rounds, [](Round) { return std::vector<Participant>{}; });
}

inline Contribution made_by(const std::string& region) {
  Contribution made;
  made.run_id = "run1";
  made.region = region;
  made.data_cursor = 16;
  made.payload.size_bytes = 100;
  made.payload.hash[0] = static_cast<std::uint8_t>(region[0]);
  return made;
}

}  // namespace causeway::diloco
