// A run in one process: the run's own inner steps, codec, weights and outer rounds for every
// region, in turn, without coordinators and links. What it learns is what a run learns whose rounds
// list every region, or those that `missing` leaves, bit for bit where each region has one worker.
#pragma once

#include <cstdint>
#include <string>

#include "apps/run/config/config.h"

namespace causeway::run {

// What becomes of contributions that miss their round. Each misses with probability 1/2, drawn from
// the seed; of a round that all would miss, one does not.
enum class Missing {
  never,     // none misses
  late,      // listed a round later, with the weight of late ones
  returned,  // back in the residual
  dropped,   // lost, as in DiLoCo's published ablation: no feedback
};

struct TrialResult {
  double loss = 0;    // of the agreed parameters on the validation part, nats per token
  double missed = 0;  // share of the contributions
  std::uint64_t payload_bytes = 0;  // of all contributions that were made
  std::uint64_t rounds = 0;
  std::string digest = {};  // of the agreed parameters, as in summary.json
};

// Trains `config` to its end, with fixed K and one worker per region, whatever it says. Throws what
// the trainer and its data throw, and ConfigError where contributions are to miss rounds that
// overlap.
TrialResult train_in_rounds(const Config& config, Missing missing = Missing::never);

// The same regions synchronised every step, as `causeway simulate` runs its baseline; in threads,
// which meet in a temporary directory.
TrialResult train_in_lockstep(const Config& config);

}  // namespace causeway::run
