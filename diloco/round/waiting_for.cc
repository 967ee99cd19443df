#include "diloco/round/waiting_for.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

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

// Where that is to be read which no waiting mends.
constexpr const char* kMostLostPage = "docs/life-of-a-run.md, \"Most regions are lost for good\"";

// Of a region that joins, before its first entry is there.
std::string log_sentence(const Region& of) {
  if (of.agreement.leader()) return "the run's log from " + *of.agreement.leader();
  std::string reachable;
  for (const std::string& peer : of.peers.up()) inter::append_item(reachable, peer);
  if (reachable.empty()) return "the run's log: no region of the run can be reached";
  return fmt::format(
      "the run's log from a leader, but no region that can be reached ({}) leads. If that stays so "
      "although all regions are up, see {}",
      reachable, kMostLostPage);
}

std::string lost_sentence(const Region& of) {
  std::string lost;
  for (const std::string& region : of.agreement.raft().electorate().lost())
    inter::append_item(lost, region);
  return fmt::format(
      "a leader, which cannot be elected any more: the disks with which {} voted are lost, and "
      "most votes of the run with them. Begin again from the directory that holds most rounds, "
      "with --fork: see {}",
      lost, kMostLostPage);
}

// A log that is not the newest may name disks that are long replaced: nobody else must know more.
bool most_are_lost(const Region& of) {
  const Electorate& electorate = of.agreement.raft().electorate();
  const auto is_here = [&of](const std::string& region) { return of.peers.is_up(region); };
  return electorate.lost_for_good() && std::ranges::all_of(electorate.lost(), is_here) &&
         !of.peers.are_ahead_of(of.history.revision(), of.history.version(), {});
}

// The run had no more for it, whatever is decided.
bool took_all_steps(const Region& of) {
  const std::optional<Applied>& applied = of.worker.applied();
  return of.worker.ready() && applied && applied->version <= of.history.version() &&
         of.history.steps_left(applied->version, of.worker.steps()) == 0;
}

// Whoever has ended answers nobody: who missed the end would wait for ever. A witness cannot know
// how many steps were taken. `missing`: votes.
std::string missed_end_sentence(const Region& of, std::size_t missing) {
  if (!of.options.witness && !took_all_steps(of)) return {};
  const std::string whose = missing == 1 ? "the coordinator of one of them"
                                         : fmt::format("the coordinators of {} of them", missing);
  return fmt::format(
      "{}. If the others have ended meanwhile, start {} again, to tell this {} the end",
      of.options.witness ? "" : ". This region has taken all steps that the run had left", whose,
      of.options.witness ? "witness" : "region");
}

// The records up to the end are here, and not all that they list.
std::string missed_payloads_sentence(const Region& of) {
  if (!of.history.over() || !of.peers.linked().empty()) return {};
  return ". If the others have ended meanwhile, start the coordinator of one of them again: it has "
         "what is missing here";
}

std::string no_leader_sentence(const Region& of) {
  const Membership& membership = of.agreement.members();
  const Raft& raft = of.agreement.raft();
  if (membership.members.empty()) return log_sentence(of);
  if (most_are_lost(of)) return lost_sentence(of);
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
  const std::string votes =
      reachable < needed
          ? fmt::format("{} within reach, {} are needed",
                        reachable == 1 ? "1 vote seems" : fmt::format("{} votes seem", reachable),
                        needed)
          : "enough votes seem within reach";
  return "a majority of the regions to agree on a leader (" + votes +
         (unreachable.empty() ? "" : "; unreachable: " + unreachable) + ")" +
         (reachable < needed ? missed_end_sentence(of, needed - reachable) : "");
}

std::string records_sentence(const Region& of) {
  return fmt::format("commit records from round {} on", of.history.version());
}

// Of the snapshot on its way, or of the payloads of the round that the worker applies next; empty
// if it waits for neither.
std::string fetching_sentence(const Region& of) {
  const Round applied = of.worker.applied()->version;
  const std::optional<Snapshot>& target = of.spool.target();
  if (target && !of.spool.holds(target->blob))
    return fmt::format("a snapshot of version {} ({} of {} bytes are here)", target->version,
                       of.fetcher.received_bytes(target->blob), target->blob.size_bytes);
  if (of.worker.distrusted() || applied >= of.history.version()) return {};
  std::uint64_t here = 0, all = 0;
  for (const inter::BlobId& blob : applied_blobs(of.history.record(applied))) {
    here += of.held_bytes(blob);
    all += blob.size_bytes;
  }
  if (here == all) return {};
  const Round behind = of.history.version() - applied;
  return fmt::format("the payloads of round {} ({} of {} bytes are here{})", applied, here, all,
                     behind > 1 ? fmt::format("; this region is {} rounds behind", behind) : "");
}

std::string snapshot_sentence(const Region& of) {
  const Round wrong = of.worker.distrusted()->version;
  const std::optional<Origin>& origin = of.agreement.origin();
  if (origin && wrong == 0) {
    return origin->run_id.empty()
               ? "the initial values of the region that founded the run"
               : "a snapshot of this run, which was forked from run " + origin->run_id;
  }
  return fmt::format("a snapshot that the run agreed on, to replace a wrong state of version {}",
                     wrong);
}

std::string catching_up_sentence(const Region& of) {
  // Nothing comes from anywhere; what is missed is said at the end of the run alone.
  if (of.peers.up().empty() && !of.history.over() && !of.worker.distrusted()) return {};
  if (of.worker.applied()->version > of.history.version()) return records_sentence(of);
  if (std::string sentence = fetching_sentence(of); !sentence.empty()) return sentence;
  if (of.worker.distrusted()) return snapshot_sentence(of);
  const bool behind =
      of.peers.are_ahead_of(of.history.revision(), of.history.version(), of.agreement.leader());
  return behind ? records_sentence(of) : std::string();
}

std::string cut_off_sentence(const Region& of) {
  const std::string fetching = fetching_sentence(of);
  const bool led = of.agreement.leader().has_value();
  // What is trained after such a loss is for nothing.
  if (!led && most_are_lost(of)) return no_leader_sentence(of);
  return (led && !fetching.empty() ? fetching : no_leader_sentence(of)) +
         "; training goes on meanwhile";
}

// For the round to be decided and agreed on.
std::string decision_sentence(const Region& of, const Leader& leader, Time now) {
  if (!of.agreement.leader()) return no_leader_sentence(of);
  if (!leader.leads()) {
    return fmt::format("{} to decide round {}", *of.agreement.leader(), of.history.version());
  }
  const Membership& membership = of.agreement.members();
  if (membership.voters() < membership.majority()) {
    return fmt::format("{} more of the run's regions to join, because a round needs most of them",
                       membership.majority() - membership.voters());
  }
  const std::string contributions = leader.waiting_for(now);
  const Raft& raft = of.agreement.raft();
  const bool agreed = raft.committed() == raft.log().last();
  return contributions.empty() || agreed ? contributions : votes_sentence(of);
}

std::string last_round_sentence(const Region& of, const RunEnd& end) {
  std::string names, limit;
  bool any_up = false;
  for (const std::string& region : end.unfinished()) {
    if (region == of.options.self) continue;
    inter::append_item(names, region);
    any_up = any_up || of.peers.is_up(region);
  }
  if (!names.empty() && !any_up)
    limit = fmt::format(", which may have ended: for {} s at most",
                        std::chrono::duration_cast<std::chrono::seconds>(end.linger()).count());
  return "the other regions to reach the last round" +
         (names.empty() ? "" : " (" + names + ")" + limit);
}

}  // namespace

std::string waiting_for(const Region& of, const Leader& leader, const Beginning& beginning,
                        const DataCheck& data_check, const RunEnd& end, Time now) {
  if (of.out.ended()) return {};
  if (of.history.run_id().empty()) return "any region of the run to say which run this is";
  if (!of.options.witness) {
    if (!of.worker.attached()) {
      // In this life of the coordinator or an earlier one.
      const bool has_ended =
          of.worker.told_to_finish() || (!of.worker.has_attached() && of.worker.applied());
      return of.history.over() && has_ended ? last_round_sentence(of, end)
                                            : "this region's workers";
    }
    if (of.worker.continuing()) return cut_off_sentence(of);
    if (of.agreement.members().members.empty()) return log_sentence(of);
    if (!of.worker.ready()) return {};
    if (std::string sentence = data_check.waiting_for(now);
        of.worker.has_more() && !sentence.empty())
      return sentence;
    if (std::string sentence = catching_up_sentence(of); !sentence.empty())
      return sentence + missed_payloads_sentence(of);
  }
  if (of.history.over()) return last_round_sentence(of, end);
  if (!of.options.witness && !of.history.share()) {
    return fmt::format("the record of round {}, which gives this region its share of the data",
                       of.history.version());
  }
  if (of.contributions.own(of.history.version()) == nullptr) {
    if (std::string sentence = data_check.waiting_for(now); !sentence.empty()) return sentence;
    if (std::string sentence = beginning.waiting_for(now); !sentence.empty()) return sentence;
  }
  return decision_sentence(of, leader, now);
}

}  // namespace causeway::diloco
