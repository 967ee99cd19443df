#include "diloco/region/agreement.h"

#include <utility>

namespace causeway::diloco {
namespace {

RaftOptions raft_options(const ProtocolOptions& options) {
  return {.self = options.self,
          .incarnation = options.incarnation,
          .heartbeat = options.heartbeat,
          .election = options.election,
          .seed = options.seed,
          .planted = options.planted};
}

}  // namespace

Agreement::Agreement(const ProtocolOptions& options, RaftState state, Peers& peers, Outbox& out)
    : options_(options), peers_(peers), out_(out), raft_(raft_options(options), std::move(state)) {}

std::vector<LogEntry> Agreement::drain() {
  const Index first_index = raft_.committed() + 1;
  Raft::Output output = raft_.take();
  if (output.save) {
    const RaftLog& log = raft_.log();
    out_.push(SaveRaft{.term = raft_.term(),
                       .vote = raft_.vote(),
                       .first_index = first_index,
                       .entries = log.slice(first_index, log.last() + 1 - first_index)});
  }
  for (auto& [region, message] : output.messages) peers_.send(region, std::move(message));
  if (!output.committed.empty()) out_.push(AppendLedger{output.committed});
  return std::move(output.committed);
}

void Agreement::note_members(const Membership& membership) {
  was_member_ = was_member_ || membership.find(options_.self) != nullptr;
}

bool Agreement::find_leader(Time now) {
  if (leader()) leader_seen_at_ = now;
  if (leader() == told_leader_) return false;
  told_leader_ = leader();
  return leader() && *leader() != options_.self;
}

// The others drop their links to a region that is removed: it has the entry, but may never hear
// that it is committed. Of two, the other one cannot do without it before that. And who joins again
// reads of its removal before it has read all.
void Agreement::check_removed(Time now) {
  if (!was_member_ || members().find(options_.self) != nullptr) return;
  const Membership* before = raft_.electorate().replaced();
  const bool told = before == nullptr && raft_.up_to_date();
  const bool not_needed = before == nullptr || before->voters() > 2;
  if (told || (cut_off(now) && not_needed)) {
    out_.end(3, "this region was removed from the run: `causeway members add` takes it back");
  }
}

}  // namespace causeway::diloco
