#include "apps/run/replay/proof_draw.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "diloco/maths/digest.h"

namespace causeway::run {
namespace {

// In [0, 1). The seed is known to nobody who could have a part in the ledger; the entry after the
// contribution's record, to nobody when the contribution was made.
double lot(const ReplaySource& source, const std::string& seed, const diloco::ContributionKey& key,
           const Listed& listed) {
  const diloco::Round later = std::min(listed.record + 1, source.rounds() - 1);
  const std::string text = fmt::format(
      "{} {} {} {}", seed, diloco::to_hex(source.history_hash(later)), key.region, key.round);
  const diloco::Digest hash = diloco::sha256(std::as_bytes(std::span(text)));
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < sizeof bits; ++i) bits = bits << 8 | hash[i];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

std::string random_seed() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

std::set<diloco::ContributionKey> draw_proofs(const ReplaySource& source, const ListedByKey& proven,
                                              const std::string& seed, double sample,
                                              diloco::Round kept) {
  std::set<diloco::ContributionKey> drawn;
  // By region: whether it is of an old round, its lot, and which.
  using Candidate = std::pair<std::pair<bool, double>, diloco::ContributionKey>;
  std::map<std::string, Candidate> lowest;
  for (const auto& [key, listed] : proven) {
    const double at = lot(source, seed, key, listed);
    if (sample >= 1 || at < sample) drawn.insert(key);
    const Candidate candidate{{key.round + kept < source.rounds(), at}, key};
    const auto [known, first] = lowest.emplace(key.region, candidate);
    if (!first && candidate.first < known->second.first) known->second = candidate;
  }
  for (const auto& [region, candidate] : lowest) {
    const bool any =
        std::ranges::find(drawn, region, &diloco::ContributionKey::region) != drawn.end();
    if (!any) drawn.insert(candidate.second);
  }
  return drawn;
}

}  // namespace causeway::run
