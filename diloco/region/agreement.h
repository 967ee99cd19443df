// This region's part in the log that the regions agree on, and how it stands with the leader.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diloco/log/raft.h"
#include "diloco/region/action.h"
#include "diloco/region/peers.h"
#include "diloco/region/protocol_options.h"

namespace causeway::diloco {

class Agreement {
 public:
  // All but the state must outlive this.
  Agreement(const ProtocolOptions& options, RaftState state, Peers& peers, Outbox& out);

  Raft& raft() { return raft_; }
  const Raft& raft() const { return raft_; }
  const std::optional<std::string>& leader() const { return raft_.leader(); }
  const Membership& members() const { return raft_.membership(); }
  const std::optional<Origin>& origin() const { return members().origin; }

  // What Raft wants done, in its order: on disk first, then said. Returns what is committed newly,
  // put to the ledger: it is to be applied.
  std::vector<LogEntry> drain();
  // This region is in a committed membership.
  void note_members(const Membership& membership);

  // To be called first of all, and again at every look at who leads: true for a new leader, which
  // knows only what it hears.
  void start(Time now) { leader_seen_at_ = now; }
  bool find_leader(Time now);
  Time leader_seen_at() const { return leader_seen_at_; }
  // No majority within reach, and for longer than an election takes.
  bool cut_off(Time now) const { return !leader() && now >= cut_off_at(); }
  Time cut_off_at() const { return leader_seen_at_ + 4 * options_.election; }
  // Ends this region if it was removed from the run.
  void check_removed(Time now);

 private:
  const ProtocolOptions& options_;
  Peers& peers_;
  Outbox& out_;
  Raft raft_;
  std::optional<std::string> told_leader_;
  Time leader_seen_at_{0};
  bool was_member_ = false;
};

}  // namespace causeway::diloco
