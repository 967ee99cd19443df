// Who waits for whom, for what, and how far it is, in words.
#include <algorithm>
#include <chrono>

#include "diloco/round/decider.h"
#include "diloco/round/round_protocol.h"

namespace causeway::diloco {
namespace {

std::string in_seconds(Time time) {
  using std::chrono::seconds;
  const auto whole = std::chrono::duration_cast<seconds>(time).count();
  return std::to_string(std::max<std::int64_t>(0, whole)) + " s";
}

}  // namespace

// ---- Any region ----

std::string RoundProtocol::waiting_for(Time now) const {
  if (ended_) return {};
  if (run_id_.empty()) return "any region of the run to say which run this is";
  if (!options_.witness) {
    if (!worker_) return "this region's workers";
    if (worker_->continuing) return no_leader_sentence() + "; training goes on meanwhile";
    if (!worker_->ready) return {};
    if (const std::string sentence = catching_up_sentence(); !sentence.empty()) return sentence;
  }
  if (over()) return "the other regions to reach the last round";
  if (!options_.witness && !data_plan_.share()) {
    return "the record of round " + std::to_string(version()) +
           ", which gives this region its share of the data";
  }
  if (!raft_.leader()) return no_leader_sentence();
  if (!decider_) {
    return *raft_.leader() + " to decide round " + std::to_string(version());
  }
  const Membership& membership = raft_.membership();
  if (membership.voters() < membership.majority()) {
    return std::to_string(membership.majority() - membership.voters()) +
           " more of the run's regions to join, because a round needs most of them";
  }
  const std::string contributions = decider_->waiting_for(now);
  return contributions.empty() || raft_.settled() ? contributions : votes_sentence();
}

// What was decided is not agreed on as long as this lasts.
std::string RoundProtocol::votes_sentence() const {
  std::string unreachable;
  for (const Member& member : raft_.membership().members) {
    const bool silent = !member.incarnation.empty() && member.region != options_.self &&
                        !up_.contains(member.region);
    if (silent) unreachable += (unreachable.empty() ? "" : ", ") + member.region;
  }
  return "most of the voting regions to put the last entry on disk" +
         (unreachable.empty() ? "" : " (" + unreachable + " unreachable)");
}

std::string RoundProtocol::no_leader_sentence() const {
  const Membership& membership = raft_.membership();
  std::string unreachable;
  std::size_t reachable = raft_.electorate().votes(options_.self) ? 1 : 0;
  for (const Member& member : membership.members) {
    if (member.region == options_.self) continue;
    if (up_.contains(member.region)) {
      reachable += raft_.electorate().votes(member.region) ? 1 : 0;
    } else {
      unreachable += (unreachable.empty() ? "" : ", ") + member.region;
    }
  }
  if (membership.members.empty()) return "the run's log";
  return "a majority of the regions to agree on a leader (" + std::to_string(reachable) +
         " votes seem within reach, " + std::to_string(raft_.electorate().quorum()) +
         " are needed" + (unreachable.empty() ? "" : "; unreachable: " + unreachable) + ")";
}

std::string RoundProtocol::catching_up_sentence() const {
  if (applied_->version > version()) {
    return "commit records from round " + std::to_string(version()) + " on";
  }
  for (const inter::BlobId& blob : fetcher_.wanted()) {
    const bool is_snapshot = target_ && target_->blob == blob;
    if (!is_snapshot && applied_->version == version()) continue;
    return (is_snapshot ? "a snapshot of version " + std::to_string(target_->version)
                        : "payloads from round " + std::to_string(applied_->version) + " on") +
           std::string(" (") + std::to_string(fetcher_.received_bytes(blob)) + " of " +
           std::to_string(blob.size_bytes) + " bytes of the next)";
  }
  if (distrusted_ && origin() && distrusted_->version == 0) {
    return "a snapshot of this run, which was forked from run " + origin()->run_id;
  }
  if (distrusted_) {
    return "a snapshot that the run agreed on, to replace a wrong state of version " +
           std::to_string(distrusted_->version);
  }
  if (behind_a_peer()) return "commit records from round " + std::to_string(version()) + " on";
  return {};
}

// ---- The leader, for contributions ----

std::string Decider::describe(const std::string& region) const {
  const auto found = candidates_.find({region, round_, 0});
  if (found == candidates_.end()) {
    return region + (up_.contains(region) ? " (no contribution yet)" : " (unreachable)");
  }
  std::uint64_t most = 0;
  for (const auto& [holder, bytes] : found->second.received_bytes) {
    if (holder != region) most = std::max(most, bytes);
  }
  return region + " (" + std::to_string(most) + " of " +
         std::to_string(found->second.contribution.payload.size_bytes) + " payload bytes at " +
         std::to_string(holders(found->second) - 1) + " other regions)";
}

std::string Decider::sitting_out() const {
  std::string names;
  for (const auto& [key, candidate] : candidates_) {
    if (!is_fresh(key) || !candidate.contribution.sits_out) continue;
    names += (names.empty() ? "" : ", ") + key.region;
  }
  return names.empty()
             ? ""
             : " (" + names + " sit this round out, because their contribution is not finite)";
}

std::string Decider::waiting_for(Time now) const {
  std::string text;
  for (const std::string& region : attached_) {
    if (!settled(region)) text += (text.empty() ? "" : ", ") + describe(region);
  }
  const std::size_t count = contributors();
  if (text.empty() && count >= contributions_min()) return {};
  if (text.empty()) text = "any region" + sitting_out();
  text += " for round " + std::to_string(round_);
  const std::optional<Time> until = deadline();
  if (until && now < *until) return text + ", at most " + in_seconds(*until - now) + " more";
  return text + "; it needs " + std::to_string(contributions_min()) + " contributions and has " +
         std::to_string(count);
}

}  // namespace causeway::diloco
