// What a worker of our own is told: its place in the run, the model, and how it trains.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "diloco/maths/outer.h"
#include "intra/base/adamw.h"
#include "intra/data/data.h"
#include "intra/model/model.h"
#include "intra/outer/codec_policy.h"
#include "intra/outer/state_file.h"
#include "intra/published/checkpoint.h"

namespace causeway::intra {

enum class Device : std::uint8_t { cpu, cuda };

struct TrainOptions {
  std::uint64_t seed = 1;
  std::int64_t batch = 8;           // sequences per region and inner step, over all its ranks
  std::uint32_t micro_batches = 1;  // gradient accumulation; divides each rank's share
  std::uint64_t steps = 0;          // inner steps of the whole run; a multiple of k
  std::uint32_t k = 0;              // inner steps per round
  // Sequences of context tokens, evenly spread over the validation part.
  std::uint64_t validation_sequences = 256;
  std::uint32_t validate_rounds = 0;  // rounds (of every fragment) between validations; 0: none
  // Likewise, evaluated while the run goes on, whenever every fragment took its turn; 0: never.
  std::uint64_t held_out_sequences = 0;
  std::uint32_t checkpoint_rounds = 10;  // rounds between training states and snapshots
  std::uint32_t checkpoints_kept = 2;    // training states on disk, the newest included
  // A state of so many bytes or more is written while steps go on.
  std::uint64_t saved_beside_steps_bytes = kSavedBesideStepsBytes;
  // > 0: no computation; a step is a timed wait (for measuring utilisation; reported as such).
  std::uint32_t timed_step_ms = 0;
  std::size_t bucket_bytes = 25U << 20;  // all-reduce granularity
  // bf16: gradients travel between a region's ranks so (bf16_sums.h).
  ModelOptions::Precision bucket_precision = ModelOptions::Precision::fp32;
  // Each rank keeps the moments of its own part of the parameters alone; one that is lost takes
  // them along, and its region goes back to the state on disk.
  bool shard_optimizer = false;
  // A rank for which the others wait longer than this, in any one operation, is hung: they give
  // their group up and go on without it.
  std::chrono::milliseconds rank_deadline{60'000};
  // The coordinator's: how long the others wait for ranks that are missing, when they gather.
  std::chrono::milliseconds rank_wait{30'000};
  Device device = Device::cpu;  // what steps are computed on
  // Of devices: what backward computes again instead of keeping. 0 nothing; 1 the activation
  // function's output; 2 the norms' outputs too.
  std::int32_t recompute = 0;
  // Of devices: anchor, outer momentum and residual stay in the host's memory.
  bool offload_outer_state = false;
  // Of GPUs: the fastest of cuBLASLt's kernels are found on each machine once (docs/gpu.md).
  bool time_products = false;
  // Of devices in bf16: weights are rounded up or down at random, so that the mean is exact.
  bool stochastic_rounding = false;
  // Inner steps between two leaves of the proof that a contribution was trained; 0: there is none.
  std::uint32_t prove_steps = 0;
  std::uint32_t proofs_kept = 16;  // rounds of which the region keeps what a check of them needs
};

// What is trained and how: what the configuration hands to every worker as it is.
struct Recipe {
  ModelOptions model = {};
  ModelOrigin origin = {};
  DataOptions data = {};
  InnerOptions inner = {};
  diloco::OuterOptions outer = {};
  diloco::OverlapOptions overlap = {};
  CodecOptions codec = {};
  TrainOptions train = {};
};

struct WorkerOptions : Recipe {
  std::string region;
  std::size_t region_index = 0, region_count = 1;  // in sorted-name order
  std::uint32_t rank = 0, world = 1;               // as configured; fewer may be there
  std::uint32_t local_rank = 0;                    // on its host: its GPU's number
  std::filesystem::path directory;                 // the region's: worker.sock, checkpoints/, gloo/
  std::string settings = {};                       // as diloco::AttachRequest has them
  // Of ranks on several hosts, which share the directory: the host on whose network they meet, and
  // where their coordinator listens for workers (HOST:PORT), with the region's certificates.
  std::string meeting_host = {}, coordinator = {};
  std::filesystem::path certificates = {};
  // Set: the fully synchronous baseline. No coordinator and no outer optimizer: gradients are
  // averaged over all regions' ranks each step. rank/world above stay the region's own; these are
  // of the whole group, which meets beside the regions' directories. A group of one computes the
  // batches of all regions, which then must have the same data.
  struct Synchronous {
    std::size_t rank, world;
    std::string generation;
  };
  std::optional<Synchronous> synchronous;

  bool computes_for_all() const { return synchronous && synchronous->world == 1; }
  // Whose batches this region's ranks compute.
  std::size_t regions_computed() const { return computes_for_all() ? region_count : 1; }

  // In a group of so many. The baseline, which others are measured by, sums in fp32.
  bool sums_in_bf16(std::size_t ranks) const {
    return train.bucket_precision == ModelOptions::Precision::bf16 && ranks > 1 && !synchronous;
  }
};

}  // namespace causeway::intra
