#include "diloco/round/beginning.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "inter/base/text.h"

namespace causeway::diloco {
namespace {

// More than a worker can attach with.
constexpr std::uint64_t kTensorsMax = 1ULL << 18U;
constexpr std::size_t kListBytesMax = 64U << 20;

std::size_t bytes_of(const NamedTensors& tensors) {
  std::size_t bytes = 0;
  for (const NamedTensor& one : tensors)
    bytes += one.name.size() + one.shape.size() * sizeof one.shape[0];
  return bytes;
}

}  // namespace

// ---- What happened ----

void Beginning::on_attached() {
  const NamedTensors& tensors = region_.worker.tensors();
  for (auto& [peer, told] : told_)
    if (has_told(peer)) told.other = other_tensor(tensors, told.tensors, peer);
  for (const Tensors& piece : in_pieces(tensors)) region_.peers.broadcast(piece);
}

bool Beginning::has_told(const std::string& peer) const {
  const auto told = told_.find(peer);
  return told != told_.end() && !told->second.tensors.empty();
}

// Pieces come in order over one link; another link begins with the first again.
void Beginning::hear(const std::string& peer, Tensors piece) {
  Told& told = told_[peer];
  if (piece.earlier == 0) {
    told.coming.clear();
    told.coming_bytes = 0;
  }
  if (piece.earlier != told.coming.size() || piece.total > kTensorsMax) return;
  told.coming_bytes += bytes_of(piece.tensors);
  if (told.coming_bytes > kListBytesMax) return;
  std::ranges::move(piece.tensors, std::back_inserter(told.coming));
  if (told.coming.size() < piece.total) return;
  told.tensors = std::exchange(told.coming, {});
  told.other = other_tensor(region_.worker.tensors(), told.tensors, peer);
}

void Beginning::tell(const std::string& peer) {
  for (const Tensors& piece : in_pieces(region_.worker.tensors())) region_.peers.send(peer, piece);
}

// Before the first round the founder alone is right. Later what most regions train is: no single
// one can end another by its word.
void Beginning::check(Time now) {
  if (!region_.worker.attached()) return;
  if (region_.worker.ready() && region_.history.version() == 0 && !ready_at_) ready_at_ = now;
  if (region_.worker.tensors().empty()) return;
  const std::optional<std::string> first = founder();
  if (region_.history.version() == 0) {
    if (first && *first != region_.options.self) check_against(*first);
    return;
  }
  const std::set<std::string> members = region_.agreement.members().regions();
  std::vector<std::string> others;
  for (const auto& [peer, told] : told_) {
    if (!told.other.empty() && members.contains(peer)) others.push_back(peer);
  }
  if (2 * others.size() > members.size()) check_against(others.front());
}

void Beginning::check_against(const std::string& peer) {
  const auto told = told_.find(peer);
  if (told == told_.end()) return;
  const std::string& clause = told->second.other;
  if (clause.empty()) return check_values(peer, told->second.tensors);
  region_.out.end(2, clause + ": the program of " + region_.options.self +
                         " trains another model than the run. Start the same one in every region");
}

// Of a forked run nobody's values count. The log may have the founder's by now.
std::optional<std::string> Beginning::other_value(const NamedTensors& there) const {
  const std::optional<Origin>& origin = region_.agreement.origin();
  if (region_.history.version() > 0 || (origin && !origin->run_id.empty())) return std::nullopt;
  return other_values(region_.worker.tensors(), there);
}

void Beginning::check_values(const std::string& peer, const NamedTensors& there) {
  const std::optional<std::string> name = other_value(there);
  if (!name) return;
  const std::string which = "the tensor \"" + *name + "\" has other initial values in " +
                            region_.options.self + " than in " + peer;
  if (region_.options.initial == InitialValues::equal) {
    return region_.out.end(
        2, which +
               ", and run.initial = \"equal\" wants the same in every region: set the same "
               "seed before the model is made, or load the same weights (run.initial = "
               "\"founder\" takes those of " +
               peer + ")");
  }
  if (!std::exchange(said_, true)) {
    region_.out.note(Note::Severity::warning,
                     which + ", which founded the run: this region takes the values of " + peer);
  }
}

// ---- What follows ----

// A worker that only knows its configuration names no tensors.
bool Beginning::fits(const std::string& peer) const {
  const auto told = told_.find(peer);
  if (!has_told(peer)) return region_.worker.tensors().empty();
  if (!told->second.other.empty()) return false;
  return region_.options.initial != InitialValues::equal || !other_value(told->second.tensors);
}

// The log's first entry gives one region a vote.
std::optional<std::string> Beginning::founder() const {
  const std::optional<Membership>& first = region_.history.first_members();
  if (!first) return std::nullopt;
  const auto voter = std::ranges::find_if(
      first->members, [](const Member& one) { return !one.incarnation.empty(); });
  const bool trains = voter != first->members.end() && !voter->witness &&
                      region_.agreement.members().find(voter->region) != nullptr;
  return trains ? std::optional(voter->region) : std::nullopt;
}

std::optional<Applied> Beginning::applied_by(const std::string& region) const {
  if (region == region_.options.self) return region_.worker.applied();
  const Status* status = region_.peers.status(region);
  return status == nullptr || !region_.peers.is_up(region) ? std::nullopt : status->applied;
}

std::optional<Snapshot> Beginning::snapshot_of(const std::string& region) const {
  if (region == region_.options.self) return region_.spool.snapshot();
  const Status* status = region_.peers.status(region);
  return status == nullptr ? std::nullopt : status->snapshot;
}

bool Beginning::needs_initial_snapshot() const {
  return region_.options.initial == InitialValues::founder && region_.history.version() == 0 &&
         !region_.worker.tensors().empty() && !region_.agreement.origin() &&
         founder() == region_.options.self;
}

bool Beginning::takes_the_founders() const {
  const std::optional<std::string> first = founder();
  if (!first || *first == region_.options.self || !has_told(*first)) return false;
  const std::optional<Applied> theirs = applied_by(*first), own = region_.worker.applied();
  return region_.options.initial == InitialValues::founder && !region_.worker.tensors().empty() &&
         theirs && own && theirs->version == 0 && own->version == 0 && theirs->state != own->state;
}

// A region that cannot be reached is waited for as in any round.
std::vector<std::string> Beginning::absent() const {
  std::vector<std::string> regions;
  for (const std::string& region : region_.agreement.members().regions()) {
    if (region == region_.options.self || !region_.peers.is_up(region)) continue;
    if (!applied_by(region)) regions.push_back(region);
  }
  return regions;
}

bool Beginning::holds_back(Time now) const {
  if (region_.history.version() > 0) return false;
  if (takes_the_founders()) return true;
  const std::optional<Time> until = deadline();
  return until && now < *until && !absent().empty();
}

std::optional<Time> Beginning::deadline() const {
  if (!ready_at_ || region_.history.version() > 0) return std::nullopt;
  return *ready_at_ + region_.options.start_wait;
}

std::string Beginning::waiting_for(Time now) const {
  if (!holds_back(now)) return {};
  if (takes_the_founders()) return "the initial values of " + *founder();
  std::string names;
  for (const std::string& region : absent()) inter::append_item(names, region);
  const auto most =
      std::chrono::duration_cast<std::chrono::seconds>(region_.options.start_wait).count();
  return fmt::format(
      "the workers of {} to start, before the first round (for at most {} s, which "
      "sync.start_wait_s sets)",
      names, most);
}

std::optional<Membership> Beginning::proposal() const {
  const std::optional<std::string> first = founder();
  const bool said = region_.history.version() > 0 || region_.agreement.origin().has_value();
  if (said || !first || region_.options.initial != InitialValues::founder) return std::nullopt;
  const std::optional<Applied> theirs = applied_by(*first);
  const std::optional<Snapshot> snapshot = snapshot_of(*first);
  if (!theirs || !snapshot || *theirs != Applied{snapshot->version, snapshot->state} ||
      snapshot->version != 0)
    return std::nullopt;
  const std::set<std::string> regions = region_.agreement.members().regions();
  const bool differ = std::ranges::any_of(regions, [&](const std::string& region) {
    const std::optional<Applied> held = applied_by(region);
    return held && held->version == 0 && held->state != theirs->state;
  });
  if (!differ) return std::nullopt;
  Membership membership = region_.agreement.members();
  membership.origin =
      Origin{.run_id = {}, .version = 0, .state = snapshot->state, .blob = snapshot->blob};
  return membership;
}

}  // namespace causeway::diloco
