// What the payloads of a commit record add up to: scratch <- their weighted mean, over the own
// segments of the round's fragment, in fp32 and in canonical order.
//
// A payload that cannot be decoded counts as 0, and the other weights stay; so does one that would
// move the model much farther than most (compression/codecs/outliers.h). Every region finds that,
// as all have the same bytes: a member lied, or memory failed before they were hashed. The round
// has no other record, so whoever refused it would stand still for ever.
#pragma once

#include <cstddef>
#include <set>
#include <span>

#include "diloco/log/record.h"
#include "diloco/maths/outer.h"
#include "intra/collective/collective.h"
#include "intra/outer/outer_spans.h"
#include "intra/outer/ownership.h"

namespace causeway::intra {

struct Agreed {
  const diloco::CommitRecord& record;
  // Of applied_blobs(record), untrusted. Of a sharded round, sums.
  std::span<const std::span<const std::byte>> payloads;
};

// Returns the places of the payloads that were left out, on all ranks the same, and logs them.
// Throws std::errc::io_error, with the anchor untouched, where the bytes of one that would be left
// out are not those that were agreed on.
std::set<std::size_t> reduce(Collective& collective, const Ownership& ownership,
                             diloco::OuterOptions::Mean mean, const Agreed& agreed,
                             OuterSpans& spans);

}  // namespace causeway::intra
