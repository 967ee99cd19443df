#include "intra/outer/contribution_fate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace causeway::intra {
namespace {

const diloco::Participant* find(const diloco::CommitRecord& record, const std::string& region,
                                const diloco::Contribution& own) {
  const auto found = std::find_if(
      record.participants.begin(), record.participants.end(), [&](const auto& participant) {
        return participant.region == region && participant.round == own.round &&
               participant.part == own.part;
      });
  return found == record.participants.end() ? nullptr : &*found;
}

// Nothing: its outcome is still open.
std::optional<ContributionFate> fate_of(const InFlight& own, const diloco::CommitRecord& record,
                                        const std::string& region, bool feedback) {
  if (const diloco::Participant* listed = find(record, region, own.contribution)) {
    const bool same = own.payload.empty() || listed->made_hash() == own.payload.hash();
    return same ? ContributionFate::delivered : ContributionFate::forgotten;
  }
  if (own.contribution.round >= record.expired_before) return std::nullopt;
  return feedback && !own.payload.empty() ? ContributionFate::returned : ContributionFate::dropped;
}

// Listed contributions of this region that this worker knows nothing of.
void find_forgotten(const diloco::CommitRecord& record, const std::string& region,
                    const OuterState& state, Settled& settled) {
  for (const diloco::Participant& listed : record.participants) {
    if (listed.region != region) continue;
    const bool known =
        std::any_of(state.in_flight.begin(), state.in_flight.end(), [&](const InFlight& own) {
          return own.contribution.round == listed.round && own.contribution.part == listed.part;
        });
    if (!known)
      settled.outcomes.push_back({ContributionFate::forgotten, listed.round, listed.part, 0});
  }
}

}  // namespace

Settled settle(const diloco::CommitRecord& record, const Settling& how, OuterState& state) {
  Settled settled;
  find_forgotten(record, how.region, state, settled);
  const std::uint32_t next_part = state.next_part();
  std::vector<InFlight> open;
  for (InFlight& own : state.in_flight) {
    const std::optional<ContributionFate> fate = fate_of(own, record, how.region, how.feedback);
    const diloco::Contribution& made = own.contribution;
    if (!fate) {
      open.push_back(std::move(own));
      continue;
    }
    // That nothing came of it was said when it sat out.
    if (!made.sits_out) settled.outcomes.push_back({*fate, made.round, made.part, made.steps});
    if (fate == ContributionFate::returned) settled.returned.push_back(std::move(own));
  }
  state.in_flight = std::move(open);
  settled.forget_residual = std::any_of(
      settled.outcomes.begin(), settled.outcomes.end(),
      [](const Outcome& outcome) { return outcome.fate == ContributionFate::forgotten; });
  if (state.work.steps > 0 && (how.follows_anchor || settled.forget_residual))
    settled.outcomes.push_back(
        {ContributionFate::dropped, record.round, next_part, state.work.steps});
  return settled;
}

std::string sentence(const Outcome& outcome, diloco::Round round) {
  const std::string what =
      fmt::format("the {} inner steps of round {}{}", outcome.steps, outcome.round,
                  outcome.part > 0 ? fmt::format(", part {}", outcome.part) : "");
  const std::string here = fmt::format("round {}: ", round);
  switch (outcome.fate) {
    case ContributionFate::delivered:
      if (outcome.round == round) return {};
      return here + what + " were delivered late";
    case ContributionFate::returned:
      return here + what + " were not listed in time and went back into the residual";
    case ContributionFate::dropped:
      return here + what + " are dropped";
    case ContributionFate::forgotten:
      return fmt::format(
          "{}lists a contribution of round {} from before a restart, which the saved state does "
          "not have; the residual is dropped",
          here, outcome.round);
  }
  return {};
}

}  // namespace causeway::intra
