#include "apps/run/region/shard_tools.h"

#include <utility>

#include "compression/codecs/payload_sum.h"
#include "intra/base/float_mode.h"

namespace causeway::run {
namespace {

// Each takes a file, a few messages and a wait for the disk, however small it is.
constexpr std::uint64_t kShardElementsMin = 1U << 18;

std::vector<std::vector<std::byte>> cut(std::span<const std::byte> payload) {
  return compression::cut_payload(payload, diloco::kShardsMax, kShardElementsMin);
}

diloco::ShardTools::Sum sum(std::span<const diloco::ShardTools::Term> terms,
                            const diloco::ShardTools::FirstOf& first) {
  intra::restore_float_mode();
  std::vector<compression::PayloadTerm> payloads;
  for (const diloco::ShardTools::Term& term : terms)
    payloads.push_back({term.payload, term.weight, term.region});
  constexpr std::uint32_t kNone = compression::StatisticSegments::kNone;
  compression::PayloadSum made = compression::sum_payloads(
      payloads,
      {.averaged = first.averaged.value_or(kNone), .lowest = first.lowest.value_or(kNone)});
  diloco::ShardTools::Sum sum{std::move(made.payload), {}};
  for (const std::size_t place : made.left_out)
    sum.left_out.push_back({place, "cannot be decoded"});
  for (const compression::Outlier& one : made.outliers)
    sum.left_out.push_back({one.place, compression::in_words(one)});
  return sum;
}

}  // namespace

diloco::ShardTools shard_tools() {
  return {.cut = cut, .sum = sum};
}

}  // namespace causeway::run
