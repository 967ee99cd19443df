// Payloads in shards (diloco/region/shards.h): cut, and summed shard by shard, by anybody who has
// the bytes. Neither the model nor the run's configuration is needed: a payload says what it holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "compression/codecs/outliers.h"

namespace causeway::compression {

// A payload for each shard: whole segments in their order, of about as many elements as the others
// have. At most `shards_max`, none of many fewer than `elements_min` elements unless it is the only
// one, and one segment at least in each. The cut follows from the segments'
// elements alone, so that all payloads of a round are cut alike. Throws Errc::malformed.
std::vector<std::vector<std::byte>> cut_payload(std::span<const std::byte> payload,
                                                std::size_t shards_max,
                                                std::uint64_t elements_min = 1);

struct PayloadTerm {
  std::span<const std::byte> payload;
  float weight = 0;
  std::string_view sender = {};
};

struct PayloadSum {
  std::vector<std::byte> payload;
  std::vector<std::size_t> left_out;  // terms that cannot be decoded, ascending
  std::vector<Outlier> outliers;      // left out, too
};

// The first segments of their kinds (diloco/maths/layout.h, SegmentClass). Of those from `lowest`
// on nothing is added up: the first term's are taken.
struct StatisticSegments {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t averaged = kNone;
  std::uint32_t lowest = kNone;
};

// sum of weight * Q over the terms, in their order and in fp32, encoded again: floats as the terms
// have them, all else as dense:int8 in blocks of 128. Canonical: the same terms give the same bytes
// on every machine. Untrusted terms: those that are damaged, or hold other segments than most, are
// left out, and then outliers. A segment whose sum is not finite counts as 0. With no term left the
// sum has no segments.
PayloadSum sum_payloads(std::span<const PayloadTerm> terms,
                        const StatisticSegments& statistics = {});

}  // namespace causeway::compression
