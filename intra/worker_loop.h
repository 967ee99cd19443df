// The worker: K inner steps, one outer round, until the run is over (design.md section 3, rows 1-6
// and 11-13).
//
//   attach -> form the region's collective -> restore the training state, if any
//   loop: ask the coordinator what to do (rank 0, told to the others by broadcast)
//     Train    K inner steps; delta, residual, encode own segments; gather; contribute
//     Apply    decode every listed payload in region order; outer step on own segments; all-gather;
//              digest
//     Restore  adopt a snapshot; residual <- 0
//     Finish   evaluate, write the final checkpoint, report
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "diloco/outer.h"
#include "diloco/overlap.h"
#include "intra/checkpoint.h"
#include "intra/codec_policy.h"
#include "intra/data.h"
#include "intra/model/model.h"
#include "intra/optimizer.h"

namespace causeway::intra {

struct TrainOptions {
  std::uint64_t seed = 1;
  std::int64_t batch = 8;           // sequences per region and inner step, over all its ranks
  std::uint32_t micro_batches = 1;  // gradient accumulation; divides each rank's share
  std::uint64_t steps = 0;          // inner steps of the whole run; a multiple of k
  std::uint32_t k = 0;              // inner steps per round
  // Sequences of context tokens, evenly spread over the validation part.
  std::uint64_t validation_sequences = 256;
  std::uint32_t checkpoint_rounds = 10;  // rounds between training states and snapshots
  std::uint32_t checkpoints_kept = 2;    // training states on disk, the newest included
  // > 0: no computation; a step is a timed wait (for measuring utilisation; reported as such).
  std::uint32_t timed_step_ms = 0;
  std::size_t bucket_bytes = 25U << 20;  // all-reduce granularity
};

struct WorkerOptions {
  std::string region;
  std::size_t region_index = 0, region_count = 1;  // in sorted-name order
  std::uint32_t rank = 0, world = 1;
  ModelOptions model;
  ModelOrigin origin;
  DataOptions data;
  InnerOptions inner;
  diloco::OuterOptions outer;
  diloco::OverlapOptions overlap;
  CodecOptions codec;
  TrainOptions train;
  diloco::Round rounds = 0;         // of the whole run; 0: not known
  std::filesystem::path directory;  // the region's: worker.sock, checkpoints/, gloo/
  // Set: the fully synchronous baseline. No coordinator and no outer optimizer: gradients are
  // averaged over all regions' ranks each step. rank/world above stay the region's own; these are
  // of the whole group, which meets beside the regions' directories.
  struct Synchronous {
    std::size_t rank, world;
    std::string generation;
  };
  std::optional<Synchronous> synchronous;
};

// What a finished worker (rank 0) leaves in directory/result.json, besides
// checkpoints/final.
struct WorkerResult {
  std::uint64_t steps = 0, tokens = 0, rounds = 0;
  double val_loss = 0;
  double compute_s = 0, wait_s = 0;
  std::string params_digest;  // hex Merkle root of the final anchor
  bool timed_steps = false;
};

// Returns when the run is over. `interrupted` is polled between steps and in every wait: once true,
// state is saved and Errc::interrupted is thrown. All other failures throw std::system_error with a
// message that says what to do.
WorkerResult run_worker(const WorkerOptions& options, const std::function<bool()>& interrupted);

}  // namespace causeway::intra
