#include "apps/run/config/spool_need.h"

#include <algorithm>

#include "diloco/maths/layout.h"
#include "intra/outer/codec_policy.h"
#include "intra/outer/outer_state.h"

namespace causeway::run {
namespace {

constexpr std::uint64_t kHeaderBytes = 4096;  // of a snapshot, beside the names of its tensors

// A snapshot lets go of the rounds before it when a record confirms it. Meanwhile those since the
// one before it are there, the open round, and the one that passes while the snapshot is copied.
// And one more for whoever catches up: random schedules with less stood still.
std::uint64_t rounds_kept(const Config& config) {
  const std::uint64_t behind = std::max<std::uint64_t>(
      {2, config.sync.rules.staleness_max + 1, config.train.checkpoint_rounds});
  std::uint32_t k = k_policy(config).k_min;
  if (config.sync.warmup_k > 0) k = std::min(k, config.sync.warmup_k);
  const std::uint64_t rounds_of_run = (config.train.steps + k - 1) / k;
  return std::min(behind + 3, rounds_of_run);
}

// In a sharded round: the own one, two for the shards to sum, and the sums, which are of eight bits
// though the payloads may be of four.
std::uint64_t payloads_of_round(const Config& config) {
  const std::uint64_t regions = config.regions.size();
  const bool full = config.sync.rules.exchange == diloco::ExchangeKind::full;
  return full ? regions : std::max<std::uint64_t>(regions, 5);
}

}  // namespace

SpoolNeed spool_need(const Config& config) {
  const diloco::Layout layout(intra::parameter_tensors(config.model));
  SpoolNeed need{.rounds = rounds_kept(config),
                 .payload_bytes = intra::CodecPolicy(config.codec, layout)
                                      .payload_bytes_max(layout, config.overlap.fragments),
                 .snapshot_bytes = 2 * sizeof(float) * layout.size() +
                                   2 * intra::describe_tensors(layout).size() + kHeaderBytes};
  need.bytes =
      need.rounds * payloads_of_round(config) * need.payload_bytes + 2 * need.snapshot_bytes;
  return need;
}

}  // namespace causeway::run
