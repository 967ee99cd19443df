// What if a round had been weighted otherwise.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diloco/log/record.h"

namespace causeway::run {

struct Reweighting {
  std::string region;
  diloco::Round round = 0;
  std::optional<float> weight;  // none: it is left out, and the others share its weight
};

// "eu-west@40" and "eu-west@40=0.25". Throw ConfigError saying what it must be.
Reweighting parse_without(const std::string& text);
Reweighting parse_weight(const std::string& text);

// `record` with those of its round. Who is left out leaves its weight to the others, in proportion
// to theirs. Throws ConfigError if the record does not list the region, or nobody would be left.
diloco::CommitRecord reweighted(diloco::CommitRecord record,
                                const std::vector<Reweighting>& changes);

}  // namespace causeway::run
