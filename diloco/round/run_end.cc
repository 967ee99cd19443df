#include "diloco/round/run_end.h"

#include <algorithm>
#include <functional>
#include <vector>

#include <fmt/format.h>

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

constexpr Time kLingerMax = seconds{60};
constexpr Time kDetoursFirst = seconds{2};
constexpr Time kGoodbye = seconds{10};  // for the other regions to hear that the run is over
constexpr Round kBarrenMax = 3;
constexpr Time kUnknownRound = seconds{60};
constexpr int kPatienceMax = 8;  // times that a region which moves is waited for at the end

}  // namespace

// Who restarts while training diverges counts the rounds as the others do. After enough of them the
// run has ended: then all regions were started again, with other settings perhaps, and these
// deserve as many rounds.
void RunEnd::start(Time now) {
  note_progress(now);
  count_barren();
  if (barren_ < kBarrenMax) return;
  barren_before_ = barren_;
  region_.out.note(
      Note::Severity::warning,
      fmt::format(
          "the newest {} rounds list nothing: training diverged before this start, and will "
          "again unless inner.lr, inner.clip_norm or inner.warmup_steps have changed",
          barren_));
}

// A round in which no region has anything finite to offer lists nothing. One may be chance; several
// are a training that diverges everywhere and will not come back by itself.
void RunEnd::add_record(Time now) {
  note_progress(now);
  count_barren();
  barren_before_ = std::min(barren_before_, barren_);
  const bool enough = barren_ - barren_before_ >= kBarrenMax;
  if (!enough) barren_until_.reset();
  if (enough && !barren_until_) barren_until_ = now + kGoodbye;
}

// Whoever leads has all that is committed. This region may hear so before it knows who leads. A
// leader after that one that does not say so has the last round still before it: the first lied.
void RunEnd::note_finished(Time now) {
  const std::optional<std::string>& leader = region_.agreement.leader();
  if (!leader) return;
  const bool finished = said_finished_.contains(*leader);
  if (finished && !finished_at_) finished_at_ = now;
  if (!finished && !region_.history.over()) finished_at_.reset();
}

void RunEnd::tell(const std::string& peer) {
  if (leader_.leads() && finished_at_) region_.peers.send(peer, Finished{});
}

void RunEnd::tell_all(bool linked) {
  for (const std::string& peer : region_.peers.up()) {
    if (region_.peers.linked().contains(peer) == linked) region_.peers.send(peer, Finished{});
  }
}

void RunEnd::check(Time now) {
  note_finished(now);
  if (region_.history.over() && !over_at_) over_at_ = now;
  if (!region_.history.over()) over_at_.reset();  // the last rounds were taken back
  if (!region_.out.ended()) check_barren(now);
  if (!region_.out.ended()) check_stuck(now);
  if (region_.out.ended() || (!region_.history.over() && !finished_at_)) return;
  if (leader_.leads()) {
    check_as_leader(now);
  } else {
    check_as_follower(now);
  }
}

std::array<std::optional<Time>, 4> RunEnd::deadlines() const {
  return {end_deadline(), barren_until_, stuck_deadline(), lost_deadline()};
}

// ---- The last version ----

Time RunEnd::linger() const {
  return std::clamp(region_.options.grace_max, kGoodbye, kLingerMax);
}

bool RunEnd::worker_done() const {
  if (!region_.history.over() || region_.options.witness) return region_.history.over();
  const std::optional<Applied>& applied = region_.worker.applied();
  return applied && applied->version >= region_.history.version() &&
         (region_.worker.told_to_finish() || !region_.worker.attached());
}

bool RunEnd::is_done(const std::string& peer) const {
  const Status* status = region_.peers.status(peer);
  return status != nullptr && status->applied && region_.history.over() &&
         status->applied->version >= region_.history.version();
}

std::set<std::string> RunEnd::unfinished() const {
  std::set<std::string> regions;
  if (!worker_done()) regions.insert(region_.options.self);
  for (const std::string& name : region_.agreement.members().regions()) {
    const bool waited_for = name != region_.options.self && !region_.peers.doubts_for_good(name);
    if (waited_for && !is_done(name)) regions.insert(name);
  }
  return regions;
}

// Without those that say that the run is over.
bool RunEnd::may_go_on() const {
  std::set<std::string> left = region_.peers.up();
  std::erase_if(left, [this](const std::string& peer) { return said_finished_.contains(peer); });
  left.insert(region_.options.self);
  return region_.agreement.raft().electorate().may_decide(left);
}

// When waiting for the end stops if nothing moves.
std::optional<Time> RunEnd::end_deadline() const {
  if (!region_.history.over() && !finished_at_) return std::nullopt;
  if (leader_.leads()) return leader_deadline();
  // A leader at the end of a run leaves, and nobody is left who could elect another one. Where that
  // is not so, it was lying.
  if (region_.agreement.leader() || (!worker_done() && may_go_on())) return std::nullopt;
  const Time left_at = region_.agreement.leader_seen_at();
  if (finished_at_) return std::max({*finished_at_, progress_at_, left_at}) + linger();
  if (!worker_done()) return std::nullopt;
  // Whoever is there and lacks the end needs this region to elect a leader.
  const std::set<std::string> lacking = unfinished();
  const bool needed = std::ranges::any_of(
      lacking, [this](const std::string& region) { return region_.peers.is_up(region); });
  return left_at + (needed ? kPatienceMax : 1) * linger();
}

std::optional<Time> RunEnd::leader_deadline() const {
  if (finished_at_) return *finished_at_ + (told_linked_ ? kGoodbye : kDetoursFirst);
  const std::set<std::string> waiting = unfinished();
  if (waiting.empty()) return std::nullopt;
  const bool reachable = std::ranges::any_of(waiting, [this](const std::string& region) {
    return region == region_.options.self || region_.peers.is_up(region);
  });
  // One that is there may be in the middle of inner steps, which the end does not interrupt, and
  // slower than it was. A member that lies could go on to move for ever.
  Time patience = linger();
  if (reachable) {
    patience = std::max(region_.options.grace_max, patience) + 2 * longest_round(waiting) +
               region_.agreement.raft().reunion_max(waiting);
  }
  return std::min(progress_at_ + patience,
                  over_at_.value_or(progress_at_) + kPatienceMax * patience);
}

// Of those that regions which are waited for may still be at.
Time RunEnd::longest_round(const std::set<std::string>& waiting) const {
  std::uint32_t steps = region_.history.nominal_k(region_.history.version() - 1);
  Time unknown{0};  // to a leader that is new
  for (const std::string& region : waiting) {
    if (!leader_.decider()->knows_speed(region)) unknown = kUnknownRound;
    const Status* status = region_.peers.status(region);
    const std::optional<Applied> applied = region == region_.options.self ? region_.worker.applied()
                                           : status != nullptr            ? status->applied
                                                                          : std::nullopt;
    const Round at = applied ? applied->version : region_.history.version();
    const Round known = std::max(at, region_.history.kept_from());
    if (known < region_.history.version())
      steps = std::max(steps, region_.history.nominal_k(known));
  }
  if (steps == 0) unknown = kUnknownRound;  // it is at a round that is forgotten here
  return std::max(unknown, leader_.decider()->slowest(steps));
}

void RunEnd::check_as_leader(Time now) {
  const std::set<std::string> waiting = unfinished();
  if (!finished_at_) {
    if (!waiting.empty() && now < *end_deadline()) return;
    finished_at_ = now;
    tell_all(false);
    for (const std::string& region : waiting) note_left_behind(region);
  }
  // Who carries others' messages ends last.
  const bool has_detours = region_.peers.up().size() > region_.peers.linked().size();
  if (!told_linked_ && (!has_detours || now >= *finished_at_ + kDetoursFirst)) {
    told_linked_ = true;
    tell_all(true);
  }
  // A follower that hears of the end closes its links.
  if (!region_.peers.up().empty() && now < *finished_at_ + kGoodbye) return;
  if (!worker_done())
    return region_.out.end(3, "this region's worker did not reach the last version");
  end_well();
}

// Where nobody is left who could tell it the end, it waits for ever: it takes a leader to do so.
void RunEnd::note_left_behind(const std::string& region) {
  const std::string what = region + " did not reach the last version in time";
  if (region == region_.options.self) return region_.out.note(Note::Severity::warning, what);
  const std::size_t votes = 2;  // this region's, and that one's
  const std::size_t quorum = region_.agreement.raft().electorate().quorum();
  std::string more;
  if (quorum == votes + 1) more = ", and that of another region,";
  if (quorum > votes + 1) more = fmt::format(", and those of {} others,", quorum - votes);
  region_.out.note(Note::Severity::warning,
                   fmt::format("{}. When it can be reached, start this coordinator{} again, to "
                               "tell it the end",
                               what, more));
}

void RunEnd::check_as_follower(Time now) {
  const std::optional<Time> end = end_deadline();
  if (worker_done()) {
    if (finished_at_ || (end && now >= *end)) end_well();
    return;
  }
  if (finished_at_ && end && now >= *end) {
    if (region_.options.witness)
      return region_.out.end(0, "the run is complete without this witness");
    region_.out.end(
        3,
        "the run ended before this region could catch up: to take the final state, start it again "
        "together with the coordinators of other regions, so that most of the run's are there");
  }
}

// If no majority holds another state. One that says so alone is named.
void RunEnd::end_well() {
  if (barren_ >= kBarrenMax) return end_barren();
  const std::set<std::string> regions = region_.agreement.members().regions();
  std::size_t against = 0;
  std::string names;
  const std::optional<Applied>& applied = region_.worker.applied();
  if (applied) {
    for (const std::string& name : region_.peers.that_differ_from(*applied)) {
      names += " " + name;
      against += regions.contains(name) ? 1 : 0;
    }
  }
  const bool outvoted = 2 * (regions.size() - std::min(against, regions.size())) <= regions.size();
  if (!names.empty()) {
    const std::string what =
        "the final state here (" + to_hex(applied->state) + ") differs from that of" + names;
    if (outvoted) return region_.out.end(4, what);
    region_.out.note(Note::Severity::error, what + ", which most regions do not hold");
  }
  catch_up_.confirm_final_snapshot();
  region_.out.end(0, "the run is complete");
}

// ---- Training diverges ----

void RunEnd::count_barren() {
  const RunHistory& history = region_.history;
  Round sound = history.version();
  while (sound > 0 && history.record(sound - 1).participants.empty()) --sound;
  barren_ = history.version() - sound;
}

void RunEnd::check_barren(Time now) {
  if (barren_before_ >= kBarrenMax && barren_ == barren_before_) wait_for_others(now);
  if (barren_until_ && now >= *barren_until_) end_barren();
}

// Those that ended do not come back by themselves; those that an operator starts again may come
// later than this region.
void RunEnd::wait_for_others(Time now) {
  if (met_others_) return;
  if (region_.agreement.leader() || may_go_on()) {
    barren_until_.reset();
    if (!met_at_) met_at_ = now;
    met_others_ = now - *met_at_ > kGoodbye;  // none that are about to end
    return;
  }
  met_at_.reset();
  if (!barren_until_) barren_until_ = now + kPatienceMax * linger();
}

// Also where the run is over before the others had time to hear of it.
void RunEnd::end_barren() {
  region_.out.end(
      2, fmt::format("in {} rounds in a row too few regions had anything finite to offer: training "
                     "diverges, if "
                     "no log says otherwise. The model of version {} is the last that changed, and "
                     "sound; lower inner.lr, clip "
                     "harder with inner.clip_norm, or warm up for longer (inner.warmup_steps)",
                     barren_, region_.history.version() - barren_));
}

// ---- What is needed is nowhere ----

std::size_t RunEnd::contributions_wanted() const {
  const Membership& members = region_.agreement.members();
  const std::size_t regions = members.region_count();
  return region_.options.contributions_min == 0
             ? members.most_of(regions)
             : std::min(region_.options.contributions_min, regions);
}

// Regions that can be reached and know the same records as this one, with what they say.
std::map<std::string, Status> RunEnd::living() const {
  std::map<std::string, Status> living;
  for (const std::string& name : region_.agreement.members().regions()) {
    if (name == region_.options.self) {
      living[name] = region_.report.status();
    } else if (region_.peers.is_up(name) && region_.peers.status(name) != nullptr) {
      living[name] = *region_.peers.status(name);
    }
  }
  std::erase_if(living, [this](const auto& one) {
    return one.second.revision != region_.history.revision() ||
           one.second.version != region_.history.version();
  });
  return living;
}

// Another state than the one that was agreed on: who holds it contributes nothing.
bool RunEnd::is_wrong(const Applied& applied) const {
  return applied.version < region_.history.version() &&
         region_.history.record(applied.version).state != applied.state;
}

// Where the run stands still: at the newest round that some lack payloads of, and beyond which too
// few stand to go on without them. Those that are beyond it have no snapshot to give, or nobody
// would say that it lacks anything.
std::optional<RunEnd::Lost> RunEnd::find_lost() const {
  if (region_.report.missing().empty() && !region_.peers.anyone_misses_payloads())
    return std::nullopt;
  const std::map<std::string, Status> regions = living();
  std::map<Round, std::size_t, std::greater<>> at;  // by the version that they hold: how many
  for (const auto& [name, status] : regions)
    if (status.applied && !is_wrong(*status.applied)) ++at[status.applied->version];
  std::size_t beyond = 0;
  for (const auto& [version, count] : at) {
    const bool at_end =
        region_.history.over() && beyond > 0;  // they finish, and have the last state
    if (beyond >= contributions_wanted() || at_end) return std::nullopt;
    std::optional<std::set<inter::BlobId>> lost;
    for (const auto& [name, status] : regions) {
      if (!status.applied || status.applied->version != version || status.missing.empty()) continue;
      const std::set<inter::BlobId> missing(status.missing.begin(), status.missing.end());
      if (!lost) lost = missing;
      std::erase_if(*lost, [&missing](const auto& payload) { return !missing.contains(payload); });
    }
    if (lost && !lost->empty()) return Lost{version, *lost};
    beyond += count;
  }
  return std::nullopt;
}

std::optional<RunEnd::Lost> RunEnd::lost(Time now) {
  if (plants(region_.options.planted, PlantedBug::stand_still)) return std::nullopt;
  std::optional<Lost> found = find_lost();
  if (found != lost_) lost_since_ = now;
  lost_ = std::move(found);
  return lost_ && now >= *lost_deadline() ? lost_ : std::nullopt;
}

// One that lies could go on to move for ever.
std::optional<Time> RunEnd::lost_deadline() const {
  if (!lost_) return std::nullopt;
  return std::min(std::max(lost_since_, progress_at_) + linger(),
                  lost_since_ + kPatienceMax * linger());
}

// Its worker's state is wrong, and nobody has one to begin anew from.
bool RunEnd::region_is_stuck() const {
  return region_.worker.ready() && !region_.spool.target() && region_.worker.distrusted() &&
         !catch_up_.own_snapshot_helps() && !catch_up_.can_begin_again();
}

// Every region was heard, and too few of them stand at the open round to make it: nothing that is
// needed can come from anywhere.
bool RunEnd::run_is_stuck() const {
  if (region_.history.over() || !region_.agreement.leader() || !region_is_stuck()) return false;
  std::size_t able = 0;
  for (const std::string& name : region_.agreement.members().regions()) {
    if (name == region_.options.self) continue;
    const Status* status = region_.peers.status(name);
    if (status == nullptr) return false;
    if (!region_.peers.linked().contains(name) && status->snapshot)
      return false;  // it may help once it is back
    if (region_.peers.is_up(name) && !status->missing.empty())
      return false;  // the others will go on
    able += status->applied && status->applied->version >= region_.history.version() ? 1 : 0;
  }
  return able < contributions_wanted();
}

// Time for every region to be asked again for what is missing.
std::optional<Time> RunEnd::stuck_deadline() const {
  if (!stuck_since_) return std::nullopt;
  const auto regions = static_cast<Time::rep>(region_.agreement.members().region_count());
  return std::max(*stuck_since_, progress_at_) + linger() + regions * Fetcher::kRetryMax;
}

void RunEnd::check_stuck(Time now) {
  if (!run_is_stuck()) return stuck_since_.reset();
  if (!stuck_since_) stuck_since_ = now;
  if (now < *stuck_deadline()) return;
  region_.out.end(
      4,
      fmt::format("no region has a snapshot that the run agreed on, so version {} cannot be "
                  "reached from version {}: begin a new run from the newest snapshot that is left, "
                  "with `causeway coordinator --fork DIRECTORY`, a region's directory of this run",
                  region_.history.version(), region_.worker.applied()->version));
}

}  // namespace causeway::diloco
