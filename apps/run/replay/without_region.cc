#include "apps/run/replay/without_region.h"

#include <algorithm>
#include <cassert>

#include "diloco/pacing/weights.h"

namespace causeway::run {
namespace {

constexpr std::size_t kCappedFrom = 3;  // contributions: fewer have no median that means something

// As the leader has it: a region that the last record does not know is new; at the start all are.
double liveness_before(const diloco::CommitRecord* before, const std::string& region) {
  if (before == nullptr || before->standings.empty()) return 1;
  const auto standing = std::ranges::find(before->standings, region, &diloco::Standing::region);
  return standing == before->standings.end() ? 0 : standing->liveness;
}

// All of one norm, so that nothing is capped.
std::vector<diloco::Offer> offers_of(const diloco::CommitRecord& record,
                                     const diloco::CommitRecord* before, std::uint32_t fragments) {
  std::vector<diloco::Offer> offers;
  for (const diloco::Participant& one : record.participants) {
    diloco::Offer offer{.contribution = {},
                        .liveness = diloco::liveness_as_weight(liveness_before(before, one.region)),
                        .staleness = (record.round - one.round) / fragments};
    offer.contribution.region = one.region;
    offer.contribution.tokens = one.tokens;
    offer.contribution.delta_norm = 1;
    offers.push_back(offer);
  }
  return offers;
}

}  // namespace

diloco::CommitRecord without_region(diloco::CommitRecord record, const diloco::CommitRecord* before,
                                    const std::string& region, std::uint32_t fragments) {
  assert(record.sums.empty());
  const auto left_out = [&](const diloco::Participant& one) { return one.region == region; };
  if (std::ranges::none_of(record.participants, left_out)) return record;
  const std::size_t members = record.standings.size();
  const diloco::CommitRecord decided = record;
  const diloco::Weights all = weigh(offers_of(decided, before, fragments), members);
  std::erase_if(record.participants, left_out);
  const diloco::Weights rest = weigh(offers_of(record, before, fragments), members);
  const bool may_be_capped = record.participants.size() >= kCappedFrom;
  for (std::size_t from = 0, to = 0; from < decided.participants.size(); ++from) {
    const diloco::Participant& one = decided.participants[from];
    if (left_out(one)) continue;
    const float full = all.values[from], cap = one.weight / full;
    float& weight = record.participants[to].weight;
    weight = may_be_capped && cap < 1 ? rest.values[to] * cap : rest.values[to];
    ++to;
  }
  record.skip_momentum = rest.skip_momentum;
  return record;
}

}  // namespace causeway::run
