#include "intra/step/memory_need.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <numeric>
#include <system_error>

#include "compression/base/spec.h"
#include "diloco/maths/layout.h"
#include "intra/base/error.h"
#include "intra/outer/codec_policy.h"
#include "intra/step/evaluation.h"
#include "intra/step/muon.h"

namespace causeway::intra {
namespace {

// The part of an own payload that this rank encodes, what all ranks encoded, and the payload.
constexpr std::uint64_t kPayloadCopies = 3;

// Sequences that the model computes at once: of a step, or of an evaluation.
std::int64_t sequences_at_once(const WorkerOptions& options) {
  const TrainOptions& train = options.train;
  const auto of_step = train.batch / std::int64_t{options.world} / train.micro_batches;
  const std::uint64_t evaluated = std::max(train.validation_sequences, train.held_out_sequences);
  return std::max(of_step, static_cast<std::int64_t>(std::min(evaluated, kEvaluationBlock)));
}

void append_optimizer(const WorkerOptions& options, const diloco::Layout& layout,
                      std::vector<MemoryPart>& need) {
  std::uint64_t elements = 2 * layout.size();
  const std::vector<MuonMatrix> matrices = muon_matrices(options.inner, layout);
  for (const MuonMatrix& matrix : matrices) elements -= matrix.elements.count();
  need.push_back(
      {matrices.empty() ? "AdamW moments" : "moments of Muon and AdamW", sizeof(float) * elements});
  if (!matrices.empty() && options.train.device == Device::cpu)
    need.push_back({"Muon's products", Muon::working_bytes(options.inner, layout)});
}

}  // namespace

std::vector<MemoryPart> memory_need(const WorkerOptions& options) {
  const diloco::Layout layout(parameter_tensors(options.model));
  const std::uint64_t span_bytes = sizeof(float) * layout.size();
  std::vector<MemoryPart> need{{"parameters", span_bytes},
                               {"gradients, deltas and sums", span_bytes},
                               {"anchor", span_bytes},
                               {"outer momentum", span_bytes},
                               {"residual", span_bytes}};
  append_optimizer(options, layout, need);
  if (!options.synchronous) {
    need.push_back({"parameters where a cut began", span_bytes});
    const std::uint64_t payload_bytes =
        CodecPolicy(options.codec, layout).payload_bytes_max(layout, options.overlap.fragments);
    need.push_back({"own payload", kPayloadCopies * payload_bytes});
  }
  if (options.train.device == Device::cpu && options.train.timed_step_ms == 0) {
    const std::int64_t sequences = sequences_at_once(options);
    need.push_back({"activations of " + std::to_string(sequences) + " sequences",
                    working_bytes(options.model, sequences, options.model.context)});
  }
  return need;
}

namespace {

std::string mib(std::uint64_t bytes) {
  return std::to_string((bytes + (1U << 20) - 1) >> 20);  // rounded up
}

std::uint64_t total_bytes(const std::vector<MemoryPart>& need) {
  return std::accumulate(
      need.begin(), need.end(), std::uint64_t{0},
      [](std::uint64_t sum, const MemoryPart& part) { return sum + part.bytes; });
}

// Of this host, swap included; 0: it does not say.
std::uint64_t host_bytes() {
  struct sysinfo host {};
  if (::sysinfo(&host) != 0) return 0;
  return (std::uint64_t{host.totalram} + host.totalswap) * host.mem_unit;
}

}  // namespace

void check_memory(const std::vector<MemoryPart>& need) {
  const std::uint64_t needed = total_bytes(need), there = host_bytes();
  if (there == 0 || needed / 2 <= there) return;
  throw std::system_error(Errc::bad_model, "this model needs up to " + mib(needed) +
                                               " MiB in every worker, and this "
                                               "host has " +
                                               mib(there) +
                                               " MiB: train a smaller model, or use a host "
                                               "with more memory");
}

std::string describe(const std::vector<MemoryPart>& need) {
  std::string parts;
  for (const MemoryPart& part : need) {
    compression::append_item(parts, part.name + " " + mib(part.bytes));
  }
  return "memory: at most " + mib(total_bytes(need)) + " MiB of this host: " + parts;
}

}  // namespace causeway::intra
