#include "intra/step/memory_need.h"

#include <algorithm>
#include <numeric>
#include <system_error>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "diloco/maths/digest.h"
#include "diloco/maths/layout.h"
#include "intra/base/error.h"
#include "intra/base/host_memory.h"
#include "intra/collective/bf16_sums.h"
#include "intra/outer/codec_policy.h"
#include "intra/step/evaluation.h"
#include "intra/step/muon.h"
#include "intra/step/training_state.h"

namespace causeway::intra {
namespace {

using When = MemoryPart::When;

// Connections to the other ranks: measured with two, 3 to 14 MiB.
constexpr std::uint64_t kGlooBytes = 8U << 20;

// Sequences that the model computes at once: of a step, or of an evaluation.
std::int64_t sequences_at_once(const WorkerOptions& options) {
  const TrainOptions& train = options.train;
  const auto regions = static_cast<std::int64_t>(options.regions_computed());
  const std::int64_t ranks = options.computes_for_all() ? 1 : options.world;
  const std::int64_t of_step = train.batch * regions / ranks / train.micro_batches;
  const std::uint64_t evaluated = std::max(train.validation_sequences, train.held_out_sequences);
  return std::max(of_step, static_cast<std::int64_t>(std::min(evaluated, kEvaluationBlock)));
}

std::uint64_t share_of(std::uint64_t bytes, std::uint64_t ranks) {
  return (bytes + ranks - 1) / ranks;
}

void append_optimizer(const WorkerOptions& options, const diloco::Layout& layout,
                      std::vector<MemoryPart>& need) {
  const std::uint64_t span_bytes = sizeof(float) * layout.size();
  std::uint64_t bytes = 2 * span_bytes;
  const std::vector<MuonMatrix> matrices = muon_matrices(options.inner, layout);
  for (const MuonMatrix& matrix : matrices) bytes -= sizeof(float) * matrix.elements.count();
  // All of one are gathered for a save while the rank's own part of it is there.
  if (options.train.shard_optimizer) bytes += share_of(span_bytes, options.world);
  need.push_back({matrices.empty() ? "AdamW moments" : "moments of Muon and AdamW", bytes});
  if (!matrices.empty() && options.train.device == Device::cpu)
    need.push_back(
        {"Muon's products",
         Muon::working_bytes(options.inner, layout, choose_products(options.model.precision))});
}

// What buckets in bf16 need: of the rank that needs most. Gloo gathers sums into memory of its own,
// from where each rank's are taken apart.
void append_bf16_buckets(const WorkerOptions& options, const diloco::Layout& layout,
                         std::vector<MemoryPart>& need) {
  if (!options.sums_in_bf16(options.world)) return;
  using Result = GradientReducer::Result;
  const GradientBuckets buckets(layout, options.train.bucket_bytes,
                                muon_elements(options.inner, layout));
  const Result result = options.train.shard_optimizer ? Result::own_parts : Result::everywhere;
  const std::size_t gathered = result == Result::everywhere ? 2 : 0;
  std::uint64_t most = 0;
  for (std::size_t rank = 0; rank < options.world; ++rank) {
    const Bf16Room room = bf16_room(buckets, result, rank, options.world);
    most = std::max<std::uint64_t>(most, room.words() + gathered * room.own);
  }
  need.push_back({"gradient buckets in bf16", sizeof(float) * most});
}

// The part of an own payload that this rank encoded, and the payload; of several ranks also what
// all encoded. And the payloads that a record lists.
void append_payloads(const WorkerOptions& options, const diloco::Layout& layout,
                     std::vector<MemoryPart>& need) {
  const CodecPolicy policy(options.codec, layout);
  const diloco::Fragments fragments(layout, options.overlap.fragments, options.overlap.order);
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < fragments.count(); ++i)
    most = std::max(most, policy.encoded_bytes_max(layout, fragments.segments(i)));
  const std::uint64_t copies_bytes = (options.world > 1 ? 2 : 1) * most;
  need.push_back({"own payload", share_of(most, options.world) + copies_bytes});
  if (const std::uint64_t bytes = policy.working_bytes(layout); bytes > 0)
    need.push_back({"encoding", bytes});
  need.push_back({"the regions' payloads in files", options.region_count * most, When::in_files});
}

// Of the Merkle trees over anchor and momentum: kept, and as they are made.
std::uint64_t leaves_bytes(const diloco::Layout& layout) {
  return 4 * sizeof(diloco::Digest) * (layout.size() / diloco::kLeafElements);
}

}  // namespace

std::vector<MemoryPart> memory_need(const WorkerOptions& options) {
  const diloco::Layout layout(parameter_tensors(options.model));
  const std::uint64_t span_bytes = sizeof(float) * layout.size();
  const Kept kept = kept_by(options);
  std::vector<MemoryPart> need{{"parameters", span_bytes},
                               {"gradients, deltas and sums", span_bytes}};
  if (kept.moments) append_optimizer(options, layout, need);
  if (kept.outer) {
    need.push_back({"anchor", span_bytes});
    need.push_back({"outer momentum", span_bytes});
    if (kept.residual) need.push_back({"residual", span_bytes});
    const bool always = options.overlap.variant != diloco::OverlapOptions::Variant::synchronous;
    if (always || options.region_count > 1)
      need.push_back({"parameters where open work began", span_bytes,
                      always ? When::always : When::while_alone});
    append_payloads(options, layout, need);
    need.push_back({"hashes", leaves_bytes(layout)});
  }
  if (options.train.device == Device::cpu && options.train.timed_step_ms == 0) {
    append_bf16_buckets(options, layout, need);
    const std::int64_t sequences = sequences_at_once(options);
    need.push_back({fmt::format("activations of {} sequences", sequences),
                    working_bytes(options.model, sequences, options.model.context)});
  }
  if (options.world > 1) need.push_back({"connections to other ranks", kGlooBytes});
  need.push_back({"program", kProgramBytes});
  need.push_back({"its files", kProgramFileBytes, When::in_files});
  return need;
}

namespace {

template <typename Wanted>
std::uint64_t bytes_of(const std::vector<MemoryPart>& need, const Wanted& wanted) {
  return std::accumulate(need.begin(), need.end(), std::uint64_t{0},
                         [&](std::uint64_t sum, const MemoryPart& part) {
                           return sum + (wanted(part) ? part.bytes : 0);
                         });
}

}  // namespace

std::uint64_t held_bytes(const std::vector<MemoryPart>& need) {
  return bytes_of(need, [](const MemoryPart& part) { return part.when != When::in_files; });
}

void check_memory(const std::vector<MemoryPart>& need) {
  const std::uint64_t needed = held_bytes(need);
  const HostMemory host = host_memory();
  if (host.total_bytes == 0) return;
  if (needed > host.total_bytes) {
    throw std::system_error(Errc::bad_model,
                            "this model needs up to " + in_mib(needed) + " in every worker, and " +
                                (host.limit.empty() ? "this host" : host.limit) + " has " +
                                in_mib(host.total_bytes) +
                                ": train a smaller model, or use a host with more memory");
  }
  if (needed > host.available_bytes) {
    spdlog::warn(
        "{} of memory are free now, fewer than this worker may need: end what else needs "
        "memory here, or the kernel may kill it",
        in_mib(host.available_bytes));
  }
}

std::string describe(const std::vector<MemoryPart>& need) {
  std::vector<std::string> parts;
  std::string alone;
  for (const MemoryPart& part : need) {
    const std::string text = part.name + " " + in_mib(part.bytes);
    if (part.when == When::while_alone) {
      alone += "; while this region is cut off from the others, " + text + " more";
    } else {
      parts.push_back(text);
    }
  }
  const auto together = [](const MemoryPart& part) { return part.when != When::while_alone; };
  return fmt::format("memory: at most {} of this host: {}{}", in_mib(bytes_of(need, together)),
                     fmt::join(parts, ", "), alone);
}

}  // namespace causeway::intra
