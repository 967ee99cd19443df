#include "diloco/round/round_protocol.h"

#include "inter/base/text.h"

namespace causeway::diloco {
namespace {

// What was decided is not agreed on as long as this lasts.
std::string votes_sentence(const Region& of) {
  std::string unreachable;
  for (const Member& member : of.agreement.members().members) {
    const bool silent = !member.incarnation.empty() && member.region != of.options.self &&
                        !of.peers.is_up(member.region);
    if (silent) inter::append_item(unreachable, member.region);
  }
  return "most of the voting regions to put the last entry on disk" +
         (unreachable.empty() ? "" : " (" + unreachable + " unreachable)");
}

std::string no_leader_sentence(const Region& of) {
  const Membership& membership = of.agreement.members();
  const Raft& raft = of.agreement.raft();
  if (membership.members.empty()) return "the run's log";
  std::string unreachable;
  std::size_t reachable = raft.electorate().votes(of.options.self) ? 1 : 0;
  for (const Member& member : membership.members) {
    if (member.region == of.options.self) continue;
    if (of.peers.is_up(member.region)) {
      reachable += raft.electorate().votes(member.region) ? 1 : 0;
    } else {
      inter::append_item(unreachable, member.region);
    }
  }
  const std::size_t needed = raft.electorate().quorum();
  const std::string votes = reachable < needed
                                ? std::to_string(reachable) + " votes seem within reach, " +
                                      std::to_string(needed) + " are needed"
                                : "enough votes seem within reach";
  return "a majority of the regions to agree on a leader (" + votes +
         (unreachable.empty() ? "" : "; unreachable: " + unreachable) + ")";
}

std::string records_sentence(const Region& of) {
  return "commit records from round " + std::to_string(of.history.version()) + " on";
}

// Of the first blob on its way that the worker waits for; empty if there is none.
std::string fetching_sentence(const Region& of) {
  const Round applied = of.worker.applied()->version;
  const std::optional<Snapshot>& target = of.spool.target();
  for (const inter::BlobId& blob : of.fetcher.wanted()) {
    const bool is_snapshot = target && target->blob == blob;
    if (!is_snapshot && applied == of.history.version()) continue;
    return (is_snapshot ? "a snapshot of version " + std::to_string(target->version)
                        : "payloads from round " + std::to_string(applied) + " on") +
           std::string(" (") + std::to_string(of.fetcher.received_bytes(blob)) + " of " +
           std::to_string(blob.size_bytes) + " bytes of the next)";
  }
  return {};
}

std::string snapshot_sentence(const Region& of) {
  const Round wrong = of.worker.distrusted()->version;
  const std::optional<Origin>& origin = of.agreement.origin();
  if (origin && wrong == 0) {
    return origin->run_id.empty()
               ? "the initial values of the region that founded the run"
               : "a snapshot of this run, which was forked from run " + origin->run_id;
  }
  return "a snapshot that the run agreed on, to replace a wrong state of version " +
         std::to_string(wrong);
}

std::string catching_up_sentence(const Region& of) {
  if (of.worker.applied()->version > of.history.version()) return records_sentence(of);
  if (std::string sentence = fetching_sentence(of); !sentence.empty()) return sentence;
  if (of.worker.distrusted()) return snapshot_sentence(of);
  const bool behind =
      of.peers.are_ahead_of(of.history.revision(), of.history.version(), of.agreement.leader());
  return behind ? records_sentence(of) : std::string();
}

std::string cut_off_sentence(const Region& of) {
  const std::string fetching = fetching_sentence(of);
  return of.agreement.leader() && !fetching.empty() ? fetching : no_leader_sentence(of);
}

// For the round to be decided and agreed on.
std::string decision_sentence(const Region& of, const Leader& leader, Time now) {
  if (!of.agreement.leader()) return no_leader_sentence(of);
  if (!leader.leads()) {
    return *of.agreement.leader() + " to decide round " + std::to_string(of.history.version());
  }
  const Membership& membership = of.agreement.members();
  if (membership.voters() < membership.majority()) {
    return std::to_string(membership.majority() - membership.voters()) +
           " more of the run's regions to join, because a round needs most of them";
  }
  const std::string contributions = leader.decider()->waiting_for(now);
  const Raft& raft = of.agreement.raft();
  const bool agreed = raft.committed() == raft.log().last();
  return contributions.empty() || agreed ? contributions : votes_sentence(of);
}

}  // namespace

std::string waiting_for(const Region& of, const Leader& leader, const Beginning& beginning,
                        Time now) {
  if (of.out.ended()) return {};
  if (of.history.run_id().empty()) return "any region of the run to say which run this is";
  if (!of.options.witness) {
    if (!of.worker.attached()) return "this region's workers";
    if (of.worker.continuing()) return cut_off_sentence(of) + "; training goes on meanwhile";
    if (!of.worker.ready()) return {};
    if (std::string sentence = catching_up_sentence(of); !sentence.empty()) return sentence;
  }
  if (of.history.over()) return "the other regions to reach the last round";
  if (!of.options.witness && !of.history.share()) {
    return "the record of round " + std::to_string(of.history.version()) +
           ", which gives this region its share of the data";
  }
  const bool begins = of.contributions.own(0) == nullptr;
  if (std::string sentence = beginning.waiting_for(now); begins && !sentence.empty())
    return sentence;
  return decision_sentence(of, leader, now);
}

}  // namespace causeway::diloco
