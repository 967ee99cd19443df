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
                            std::optional<std::uint32_t> lowest_from) {
  intra::restore_float_mode();
  std::vector<compression::PayloadTerm> payloads;
  for (const diloco::ShardTools::Term& term : terms)
    payloads.push_back({term.payload, term.weight});
  compression::PayloadSum made =
      compression::sum_payloads(payloads, lowest_from.value_or(compression::kNoneLowest));
  return {std::move(made.payload), std::move(made.left_out)};
}

}  // namespace

diloco::ShardTools shard_tools() {
  return {.cut = cut, .sum = sum};
}

}  // namespace causeway::run
