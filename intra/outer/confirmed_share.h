// How far an eager region may look ahead: what its own contribution says about a round's outcome.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "diloco/maths/layout.h"
#include "diloco/maths/outer.h"
#include "intra/outer/reduce.h"

namespace causeway::intra {

// Elements that tell the share well enough; more would only cost time.
inline constexpr std::size_t kShareElements = 1 << 22;

// The share of a region's contribution that the others confirmed: s = <m, q> / <q, q>, with q what
// it contributed to the record and m the record's mean, so that s q is the part of m along
// q (least squares). Between alike regions s is 1; between R that have nothing in common, 1 / R.
// From about kShareElements elements of `segments`, others in each round, the same on every rank.
// Within [0, 1]. None if nothing of the region is listed, or nothing else, or numbers are not
// finite. `left_out`: the payloads that cannot be decoded.
std::optional<float> confirmed_share(const Agreed& agreed, const std::set<std::size_t>& left_out,
                                     const std::string& region, const diloco::Layout& layout,
                                     std::span<const std::size_t> segments,
                                     diloco::OuterOptions::Mean mean = {});

}  // namespace causeway::intra
