#include "diloco/log/electorate.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace causeway::diloco {
namespace {

constexpr int kRenewal = 16;  // election timeouts
constexpr int kBarren = 8;    // election timeouts

// An honest region's term is hardly ever further away than a word's step, and is reached in a few
// if it is. Candidates take less, so that the others can follow; leaders more, so that they get
// above whoever is raised.
Term size_of(TermClaims::Step step) {
  constexpr Term kWord = Term{1} << 16U;
  switch (step) {
    case TermClaims::Step::candidate:
      return 64;
    case TermClaims::Step::word:
      return kWord;
    case TermClaims::Step::leader:
      return 64 * kWord;
  }
  return 0;
}

}  // namespace

Term TermClaims::towards(Term said, Term own, Step step) const {
  if (plants(planted_, PlantedBug::believe_terms)) return said;
  return std::min(said, own + size_of(step));
}

Term TermClaims::towards_latest(Term own, Step step) const {
  Term latest = 0, second = 0;
  for (const auto& [region, said] : said_) {
    second = std::max(second, std::min(said, latest));
    latest = std::max(latest, said);
  }
  // Two do not lie both: as far as the second, there is no step too large.
  return towards(std::max(latest, own), std::max(second, own), step);
}

bool TermClaims::may_raise(const std::string& candidate, Time now, std::mt19937_64& random) {
  Time& not_before = raise_at_[candidate];
  if (now < not_before) return false;
  std::uniform_int_distribution<Time::rep> pause(0, 4 * election_.count());
  not_before = now + Time{pause(random)};
  return true;
}

bool TermClaims::may_renew(Time now) {
  if (now < renew_at_) return false;
  renew_at_ = now + kRenewal * election_;
  return true;
}

// The election itself takes a few more.
Time TermClaims::renewal_max() const {
  return (kRenewal + 4) * election_;
}

void TermClaims::note_commit(Time now) {
  progress_at_ = now;
  raise_at_.clear();
}

bool TermClaims::is_barren(const std::string& region, bool leads, bool fruitful, Time now) {
  if (now < shunned_until_ && shunned_ == region) return true;
  if (!leads || fruitful || now < progress_at_ + kBarren * election_) return false;
  shunned_ = region;
  shunned_until_ = progress_at_ = now + kBarren * election_;
  return true;
}

Electorate::Electorate(std::string self, std::string incarnation, PlantedBug planted)
    : self_(std::move(self)), planted_(planted), incarnations_{{self_, std::move(incarnation)}} {}

void Electorate::connect(const std::string& region, const std::string& incarnation) {
  incarnations_[region] = incarnation;
}

void Electorate::note(Index index, const LogEntry& entry) {
  const auto* membership = std::get_if<Membership>(&entry.body);
  if (membership == nullptr) return;
  // The newest that is committed decides with those after it.
  if (settled() && memberships_.size() > 1) {
    memberships_.erase(memberships_.begin(), memberships_.end() - 1);
  }
  memberships_.push_back({index, *membership});
}

void Electorate::truncate_from(Index index) {
  while (!memberships_.empty() && memberships_.back().index >= index) memberships_.pop_back();
}

const Membership& Electorate::membership() const {
  static const Membership none;
  if (memberships_.empty()) return none;
  return memberships_.back().membership;
}

bool Electorate::settled() const {
  return memberships_.empty() || memberships_.back().index <= committed_;
}

const Membership* Electorate::replaced() const {
  if (settled() || memberships_.size() < 2) return nullptr;
  return &memberships_[memberships_.size() - 2].membership;
}

bool Electorate::votes(const std::string& region, const Membership& membership) const {
  const Member* member = membership.find(region);
  return member != nullptr && votes(*member);
}

bool Electorate::votes(const Member& member) const {
  if (member.incarnation.empty()) return false;
  const auto connected = incarnations_.find(member.region);
  return connected != incarnations_.end() && connected->second == member.incarnation;
}

// Whoever is being removed may be the only one that knows of it: it stands until that is committed
// (Ongaro's dissertation, 4.2.2).
bool Electorate::may_stand() const {
  const Membership* before = replaced();
  return votes(self_) || (before != nullptr && votes(self_, *before));
}

// A voter whose disk is known to be gone.
bool Electorate::is_lost(const Member& member) const {
  const auto connected = incarnations_.find(member.region);
  return !member.incarnation.empty() && connected != incarnations_.end() &&
         connected->second != member.incarnation;
}

std::size_t Electorate::lost_voters(const Membership& membership) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      membership.members, [this](const Member& member) { return is_lost(member); }));
}

std::vector<std::string> Electorate::lost() const {
  std::vector<std::string> regions;
  for (const Member& member : membership().members)
    if (is_lost(member)) regions.push_back(member.region);
  return regions;
}

bool Electorate::lost_for_good() const {
  return membership().voters() - lost_voters(membership()) < quorum();
}

std::size_t Electorate::quorum(const Membership& membership) const {
  const std::size_t voters = membership.voters();
  const std::size_t majority = voters / 2 + 1;
  if (plants(planted_, PlantedBug::commit_without_majority)) return 1;
  const std::size_t lost = lost_voters(membership);
  return lost < majority ? std::min(majority, voters - lost) : majority;
}

bool Electorate::is_quorum(const Counts& counts, const Membership& membership) const {
  const auto is_there = [&](const Member& one) { return votes(one) && counts(one.region); };
  const auto count = std::ranges::count_if(membership.members, is_there);
  return static_cast<std::size_t>(count) >= quorum(membership);
}

// A majority of the newest members; where a vote is added, of those before it too: of an even
// number half may stand for election alone if the others lost their disks, and must not have missed
// it. Nor may two leaders be elected in one term, by the members before and by those after. Whoever
// is removed is not needed: it may be gone as soon as it has the entry.
bool Electorate::may_decide(const Counts& counts) const {
  if (!is_quorum(counts, membership())) return false;
  const Membership* before = replaced();
  return before == nullptr || before->voters() >= membership().voters() ||
         is_quorum(counts, *before);
}

bool Electorate::may_decide(const std::set<std::string>& regions) const {
  return may_decide([&regions](const std::string& region) { return regions.contains(region); });
}

}  // namespace causeway::diloco
