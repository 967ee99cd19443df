#include "diloco/log/term_claims.h"

#include <algorithm>

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

}  // namespace causeway::diloco
