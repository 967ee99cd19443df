// RoundProtocol: how a run ends. The leader waits until every region that can be waited for holds
// the last version, and says so.
#include <algorithm>

#include "diloco/round/round_protocol.h"

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

constexpr Time kLingerMax = seconds{60};
constexpr Time kGoodbye = seconds{10};     // for the other regions to hear that the run is over
constexpr std::uint32_t kBarrenMax = 3;    // rounds
constexpr Time kAskedAgain = seconds{10};  // fetcher.h: per peer, at most

}  // namespace

Time RoundProtocol::linger() const {
  return std::clamp(options_.grace_max, kGoodbye, kLingerMax);
}

bool RoundProtocol::worker_done() const {
  if (!over() || options_.witness) return over();
  return applied_ && applied_->version >= version() && (finish_told_ || !worker_);
}

std::set<std::string> RoundProtocol::unfinished() const {
  std::set<std::string> regions;
  if (!worker_done()) regions.insert(options_.self);
  for (const std::string& name : raft_.membership().regions()) {
    if (name == options_.self) continue;
    const auto peer = peers_.find(name);
    const bool done = peer != peers_.end() && peer->second.status && peer->second.status->applied &&
                      over() && peer->second.status->applied->version >= version();
    if (!done) regions.insert(name);
  }
  return regions;
}

bool RoundProtocol::final_states_agree() {
  std::string differing;
  for (const auto& [name, peer] : peers_) {
    if (!peer.status || !peer.status->applied || !applied_) continue;
    if (peer.status->applied->version != applied_->version) continue;
    if (peer.status->applied->state != applied_->state) differing += " " + name;
  }
  if (differing.empty()) return true;
  end(4, "the final state here (" + to_hex(applied_->state) + ") differs from that of" + differing);
  return false;
}

void RoundProtocol::end_well() {
  confirm_final_snapshot();
  end(0, "the run is complete");
}

// When waiting for the end stops if nothing moves.
std::optional<Time> RoundProtocol::end_deadline() const {
  if (!over()) return std::nullopt;
  if (leads() && finished_at_) return *finished_at_ + kGoodbye;
  if (leads()) {
    const std::set<std::string> waiting = unfinished();
    if (waiting.empty()) return std::nullopt;
    const bool reachable = std::ranges::any_of(waiting, [this](const std::string& region) {
      return region == options_.self || up_.contains(region);
    });
    if (!reachable) return end_progress_at_ + linger();
    // It may be in the middle of inner steps, which the end does not interrupt.
    const Time round = decider_ ? decider_->slowest(nominal_k(version() - 1)) : Time{0};
    return end_progress_at_ + std::max(options_.grace_max, linger()) + round;
  }
  if (finished_at_) return std::max(*finished_at_, end_progress_at_) + linger();
  if (worker_done() && !raft_.leader()) return leader_seen_at_ + linger();
  return std::nullopt;
}

// A round in which no region has anything finite to offer lists nothing. One may be chance; several
// are a training that diverges everywhere and will not come back by itself.
void RoundProtocol::count_barren(const CommitRecord& record) {
  barren_ = record.participants.empty() ? barren_ + 1 : 0;
  if (barren_ == 0) barren_until_.reset();
  if (barren_ >= kBarrenMax && !barren_until_) barren_until_ = now_ + kGoodbye;
}

void RoundProtocol::check_barren() {
  if (!barren_until_ || now_ < *barren_until_) return;
  end(2, "in " + std::to_string(barren_) +
             " rounds in a row too few regions had anything finite to offer: training diverges. "
             "The model of version " +
             std::to_string(version() - barren_) +
             " is the last that changed, and sound; lower inner.lr, clip harder with "
             "inner.clip_norm, or warm up for longer (inner.warmup_steps)");
}

// What the worker needs next is here and at every peer that can be asked no more.
bool RoundProtocol::stuck() const {
  if (!worker_ || !worker_->ready || target_) return false;
  if (distrusted_) {
    const bool own_helps = snapshot_ && helps(*snapshot_);
    return !own_helps && (origin() || !can_replay(0));
  }
  return applied_->version < version() && !can_replay(applied_->version);
}

// Once it is back.
bool RoundProtocol::may_help(const Status& status) const {
  const Round missing = first_missing(applied_->version);
  const bool has_payloads = status.payloads_from <= missing && status.version > missing;
  const bool has_snapshot =
      status.snapshot && (distrusted_ || status.snapshot->version > applied_->version);
  return has_payloads || has_snapshot;
}

// Every region was heard, and too few of them stand at the open round to make it: nothing that is
// needed can come from anywhere.
bool RoundProtocol::run_is_stuck() const {
  if (over() || !raft_.leader() || !stuck()) return false;
  const std::set<std::string> regions = raft_.membership().regions();
  std::size_t able = 0;
  for (const std::string& name : regions) {
    if (name == options_.self) continue;
    const auto peer = peers_.find(name);
    if (peer == peers_.end() || !peer->second.status) return false;
    const Status& status = *peer->second.status;
    if (!up_.contains(name) && may_help(status)) return false;
    able += status.applied && status.applied->version >= version() ? 1 : 0;
  }
  const std::size_t wanted = options_.contributions_min == 0
                                 ? regions.size() / 2 + 1
                                 : std::min(options_.contributions_min, regions.size());
  return able < wanted;
}

// Time for every region to be asked again for what is missing.
std::optional<Time> RoundProtocol::stuck_deadline() const {
  if (!stuck_since_) return std::nullopt;
  const auto regions = static_cast<Time::rep>(raft_.membership().regions().size());
  return std::max(*stuck_since_, end_progress_at_) + linger() + regions * kAskedAgain;
}

void RoundProtocol::check_stuck() {
  if (!run_is_stuck()) return stuck_since_.reset();
  if (!stuck_since_) stuck_since_ = now_;
  if (now_ < *stuck_deadline()) return;
  const Round from = applied_->version;
  end(4, (distrusted_ ? "no region has a snapshot that the run agreed on"
                      : "the payloads of round " + std::to_string(first_missing(from)) +
                            " are on no region's disk any more") +
             ", so version " + std::to_string(version()) + " cannot be reached from version " +
             std::to_string(from) +
             ": begin a new run from the newest snapshot that is left, with `causeway coordinator "
             "--fork DIRECTORY`, a region's directory of this run");
}

// The others drop their links to a region that is removed: it has the entry, but may never hear
// that it is committed. Of two, the other one cannot do without it before that. And who joins again
// reads of its removal before it has read all.
void RoundProtocol::check_removed() {
  if (!was_member_ || raft_.membership().find(options_.self) != nullptr) return;
  const Membership* before = raft_.electorate().replaced();
  const bool told = before == nullptr && raft_.up_to_date();
  const bool not_needed = before == nullptr || before->voters() > 2;
  if (told || (cut_off() && not_needed)) {
    end(3, "this region was removed from the run: `causeway members add` takes it back");
  }
}

void RoundProtocol::check_end() {
  if (!ended_) check_barren();
  if (!ended_) check_stuck();
  if (ended_ || (!over() && !finished_at_)) return;
  if (leads()) {
    check_end_as_leader();
  } else {
    check_end_as_follower();
  }
}

void RoundProtocol::check_end_as_leader() {
  const std::set<std::string> waiting = unfinished();
  if (!finished_at_) {
    if (!waiting.empty() && now_ < *end_deadline()) return;
    finished_at_ = now_;
    broadcast(Finished{});
    for (const std::string& region : waiting) {
      note(Note::Severity::warning, region + " did not reach the last version in time");
    }
  }
  // A follower that hears of the end closes its links.
  if (!up_.empty() && now_ < *finished_at_ + kGoodbye) return;
  if (!worker_done()) return end(3, "this region's worker did not reach the last version");
  if (final_states_agree()) end_well();
}

void RoundProtocol::on_message(const std::string& peer, const Finished&) {
  // Whoever leads has all that is committed, even if this region does not know yet who that is.
  const bool leads_here = !raft_.leader() || peer == raft_.leader();
  if (leads_here && !finished_at_) finished_at_ = now_;
}

void RoundProtocol::check_end_as_follower() {
  if (worker_done()) {
    const bool alone = !raft_.leader() && now_ >= leader_seen_at_ + linger();
    if ((finished_at_ || alone) && final_states_agree()) end_well();
    return;
  }
  if (finished_at_ && now_ >= std::max(*finished_at_, end_progress_at_) + linger()) {
    if (options_.witness) return end(0, "the run is complete without this witness");
    end(3,
        "the run ended before this region could catch up: restart it while another region "
        "still runs to take the final state");
  }
}

}  // namespace causeway::diloco
