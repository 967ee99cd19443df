#include "apps/run/config/spool_need.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/run/page/format.h"
#include "intra/outer/codec_policy.h"
#include "intra/outer/outer_state.h"

namespace causeway::run {
namespace {

constexpr std::uint64_t kHeaderBytes = 4096;  // of a snapshot, beside the names of its tensors

// Rounds that stay although a snapshot is there.
std::uint64_t rounds_behind(const Config& config) {
  return std::max<std::uint64_t>(2, config.sync.rules.staleness_max + 1);
}

// A snapshot lets go of the rounds before it when a record confirms it. Meanwhile those since the
// one before it are there, the open round, and the one that passes while the snapshot is copied.
// And one more for whoever catches up: random schedules with less stood still.
std::uint64_t rounds_kept(const Config& config, std::uint32_t save_rounds) {
  const std::uint64_t behind = std::max<std::uint64_t>(rounds_behind(config), save_rounds);
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

// Laying out takes time and memory with the size, and what a program says is not checked yet.
bool is_trainable(const std::vector<diloco::TensorSpec>& tensors) {
  double elements = 0;
  for (const diloco::TensorSpec& tensor : tensors) {
    double count = 1;
    for (const std::int64_t extent : tensor.shape) count *= static_cast<double>(extent);
    elements += count;
  }
  return elements <= kParametersMax;
}

}  // namespace

SpoolNeed spool_need(const Config& config) {
  return spool_need(config, diloco::Layout(intra::parameter_tensors(config.model)),
                    config.train.checkpoint_rounds);
}

SpoolNeed spool_need(const Config& config, const diloco::Layout& layout,
                     std::uint32_t save_rounds) {
  SpoolNeed need{.rounds = rounds_kept(config, save_rounds),
                 .payload_bytes = intra::CodecPolicy(config.codec, layout)
                                      .payload_bytes_max(layout, config.overlap.fragments),
                 .snapshot_bytes = 2 * sizeof(float) * layout.size() +
                                   2 * intra::describe_tensors(layout).size() + kHeaderBytes,
                 .fewer_saves_help = save_rounds > rounds_behind(config)};
  need.round_bytes = payloads_of_round(config) * need.payload_bytes;
  need.bytes = need.rounds * need.round_bytes + 2 * need.snapshot_bytes;
  return need;
}

// A spool that is full keeps the region from contributing, and may never have room again.
std::string spool_problem(const Config& config, const SpoolNeed& need, const std::string& saves) {
  if (config.sync.spool_bytes_max >= need.bytes) return {};
  const double gib = std::ceil(1000 * static_cast<double>(need.bytes) / kGibi) / 1000;
  return "must be at least " + format_fixed(gib, 3) + ": payloads of " +
         std::to_string(need.rounds) + " rounds of " + std::to_string(config.regions.size()) +
         " regions are kept, of up to " + format_bytes(static_cast<double>(need.payload_bytes)) +
         " each, and two snapshots of " + format_bytes(static_cast<double>(need.snapshot_bytes)) +
         (need.fewer_saves_help ? "; fewer " + saves + " need less" : "");
}

std::string spool_problem_of_program(const Config& config, const diloco::NamedTensors& tensors,
                                     std::uint32_t save_rounds) {
  std::vector<diloco::TensorSpec> specs;
  for (const diloco::NamedTensor& tensor : tensors) specs.push_back({tensor.name, tensor.shape});
  if (!is_trainable(specs)) return {};
  if (save_rounds == 0) save_rounds = config.train.checkpoint_rounds;
  try {
    const SpoolNeed need = spool_need(config, diloco::Layout(std::move(specs)), save_rounds);
    const std::string problem = spool_problem(config, need, "save_rounds in this region's program");
    return problem.empty() ? problem : "sync.spool_gib: " + problem;
  } catch (const std::invalid_argument&) {  // no layout
    return {};
  } catch (const std::system_error&) {  // no codec
    return {};
  }
}

}  // namespace causeway::run
