#include "diloco/round/run_end.h"

#include <algorithm>

#include <fmt/format.h>

#include "inter/base/text.h"

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

constexpr Time kLingerMax = seconds{60};
constexpr Time kDetoursFirst = seconds{2};
constexpr Time kUnknownRound = seconds{60};
constexpr int kPatienceMax = 8;  // times that a region which moves is waited for at the end

}  // namespace

RunEnd::RunEnd(Region& region, const Leader& leader, CatchUp& catch_up)
    : region_(region),
      leader_(leader),
      catch_up_(catch_up),
      standstill_(region, catch_up, {linger(), kPatienceMax * linger()}) {}

void RunEnd::note_progress(Time now) {
  progress_at_ = now;
  standstill_.note_progress(now);
}

void RunEnd::start(Time now) {
  note_progress(now);
  if (!barren_.start(count_barren())) return;
  region_.out.note(
      Note::Severity::warning,
      fmt::format(
          "the newest {} rounds list nothing: training diverged before this start, and will "
          "again unless inner.lr, inner.clip_norm or inner.warmup_steps have changed",
          barren_.count()));
}

void RunEnd::add_record(Time now) {
  note_progress(now);
  barren_.add_record(count_barren(), now);
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
  if (!region_.out.ended()) standstill_.check(now);
  if (region_.out.ended() || (!region_.history.over() && !finished_at_)) return;
  if (leader_.leads()) {
    check_as_leader(now);
  } else {
    check_as_follower(now);
  }
}

std::array<std::optional<Time>, 4> RunEnd::deadlines() const {
  const auto [stuck, lost] = standstill_.deadlines();
  return {end_deadline(), barren_.ends_at(), stuck, lost};
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
  if (barren_.too_many()) return end_barren();
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
    if (outvoted)
      return region_.out.end(
          4, what +
                 ". To have the last rounds applied again, move checkpoints/ and ledger/finished "
                 "out of this region's directory, and start it together with another region's "
                 "coordinator. If that ends in the same way, this machine fails");
    region_.out.note(Note::Severity::error, what + ", which most regions do not hold");
  }
  catch_up_.confirm_final_snapshot();
  region_.out.end(0, "the run is complete");
}

// ---- Training diverges ----

Round RunEnd::count_barren() const {
  const RunHistory& history = region_.history;
  Round sound = history.version();
  while (sound > 0 && history.record(sound - 1).participants.empty()) --sound;
  return history.version() - sound;
}

void RunEnd::check_barren(Time now) {
  if (barren_.awaits_others())
    barren_.look_for_others(region_.agreement.leader() || may_go_on(), kPatienceMax * linger(),
                            now);
  if (barren_.ends_at() && now >= *barren_.ends_at()) end_barren();
}

// Also where the run is over before the others had time to hear of it. The last model that changed
// may be as it should be, or spoilt by numbers that one region sent.
void RunEnd::end_barren() {
  const Round changed = region_.history.version() - barren_.count();
  std::string spoilt;
  if (changed > 0) {
    std::string names;
    for (const Participant& one : region_.history.record(changed - 1).participants)
      inter::append_item(names, one.region);
    spoilt = fmt::format(
        ". If its loss is not finite, the model is spoilt, perhaps by what one of {} contributed "
        "last or not long before: go on from an earlier snapshot (--fork), without that region",
        names);
  }
  region_.out.end(
      2, fmt::format("in {} rounds in a row too few regions had anything finite to offer: training "
                     "diverges, if no log says otherwise. The model of version {} is the last that "
                     "changed. If its loss is finite (causeway eval), lower the learning rate of "
                     "the inner steps (inner.lr), clip their gradients harder (inner.clip_norm), "
                     "or warm up for longer (inner.warmup_steps); a program of your own sets these "
                     "itself{}",
                     barren_.count(), changed, spoilt));
}

}  // namespace causeway::diloco
