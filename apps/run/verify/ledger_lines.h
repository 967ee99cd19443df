// What a ledger says, in words: who contributed to each round with which weight, whose turn it is
// to lead, who came and went, and for whom the next round waits. And the same as JSON.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "apps/run/verify/region_ledger.h"

namespace causeway::run {

// What regions reported of their contributions to a round (events.jsonl, which is not signed).
struct Norms {
  double delta = 0, error = 0;  // of the delta, and of what its compression dropped
};
using ReportedNorms = std::map<diloco::Round, std::map<std::string, Norms>>;  // by round and region
ReportedNorms reported_norms(const std::vector<RegionLedger>& ledgers);

// Of all entries, or of one round's alone: several lines then. Throws ConfigError if the ledger
// does not have that round.
std::vector<std::string> ledger_lines(const RegionLedger& ledger, const ReportedNorms& norms,
                                      std::optional<diloco::Round> round);
nlohmann::json ledger_json(const RegionLedger& ledger, const ReportedNorms& norms,
                           std::optional<diloco::Round> round);

}  // namespace causeway::run
