// How a record takes contributions out of a round again, when no living member can supply their
// payloads: it takes the place of the round's record, and the records of later rounds, which were
// made from a state that nobody can reach any more, are void. Every region reads the log in this
// way, so all have the same records (docs/late-regions.md, "What nobody has"). Pure.
#pragma once

#include <cstdint>
#include <set>

#include "diloco/log/record.h"

namespace causeway::diloco {

// What the next record of the log does where `version` records stand, and `revision` of those
// before them took something out.
enum class Effect { none, next, replaces };
Effect effect_of(const CommitRecord& record, Round version, std::uint32_t revision);

// `record` without `lost`. The weights that are left grow by one factor, so that their sum stays.
CommitRecord withdraw(const CommitRecord& record, const std::set<ContributionKey>& lost,
                      std::uint32_t revision);

}  // namespace causeway::diloco
