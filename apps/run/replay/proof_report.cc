#include "apps/run/replay/proof_report.h"

#include <fmt/format.h>

#include "inter/base/text.h"

namespace causeway::run {
namespace {

constexpr std::size_t kReasonShown = 1000;  // bytes

}  // namespace

std::string quoted_line(const std::string& text, std::size_t most) {
  return inter::printable_line(text.substr(0, most)) + (text.size() > most ? "..." : "");
}

std::string ProofReport::Tally::results() const {
  return fmt::format("{} trained again with the same bits, {} different, {} not checked", same,
                     differ, unchecked);
}

void ProofReport::Tally::add(const Tally& other) {
  listed += other.listed;
  proven += other.proven;
  same += other.same;
  differ += other.differ;
  unchecked += other.unchecked;
}

void ProofReport::count(const diloco::Participant& listed) {
  Tally& tally = tallies_[listed.region];
  ++tally.listed;
  if (listed.proof) ++tally.proven;
}

void ProofReport::note_settings(const std::string& region, const std::string& differences) {
  ++result_.differ;
  say_("DIFFERS: " + region +
       " kept other settings than those of the run: " + quoted_line(differences, kReasonShown));
}

void ProofReport::note(const diloco::ContributionKey& key, const Finding& finding) {
  const std::string line = fmt::format("{}, round {}: {}", key.region, key.round,
                                       quoted_line(finding.text, kReasonShown));
  Tally& tally = tallies_[key.region];
  switch (finding.kind) {
    case Finding::Kind::same:
      ++tally.same;
      return say_(line);
    case Finding::Kind::differs:
      ++tally.differ;
      ++result_.differ;
      return say_("DIFFERS: " + line);
    case Finding::Kind::unchecked:
      ++tally.unchecked;
      return say_("not checked: " + line);
  }
}

void ProofReport::tell(const std::string& region, const Tally& tally) {
  say_(fmt::format("{}: {} listed, {} with a proof, {} drawn: {}", region, tally.listed,
                   tally.proven, tally.drawn(), tally.results()));
  if (tally.proven < tally.listed)
    say_(
        fmt::format("  {} of {} without a proof: a restart in the middle of a round leaves none, "
                    "and so does a region that does not want to be checked",
                    tally.listed - tally.proven, region));
  if (tally.same + tally.differ > 0) {
    result_.checked = true;
    return;
  }
  result_.unchecked.push_back(region);
  say_("NOT CHECKED: " + region + " contributed, and none of that could be checked");
}

ProofCheck ProofReport::end() {
  Tally all;
  for (const auto& [region, tally] : tallies_) {
    tell(region, tally);
    all.add(tally);
  }
  say_(fmt::format("of {} contributions with a proof {} were drawn: {}", all.proven, all.drawn(),
                   all.results()));
  return result_;
}

}  // namespace causeway::run
