// Proves round by round that a region trains, if ledger.prove_steps asks for it: hashes the state
// on the way, and keeps what a check needs (worker/round_proof.h).
#pragma once

#include <cstdint>
#include <optional>

#include "diloco/maths/digest.h"
#include "intra/step/training_state.h"
#include "intra/step/worker_options.h"
#include "intra/worker/round_driver.h"
#include "intra/worker/round_proof.h"

namespace causeway::intra {

// Of the one rank of a region that trains on the host. Where a round is not trained from its
// beginning to its end without a break, or the disk refuses, its contribution has no proof.
class StepProofs {
 public:
  explicit StepProofs(const WorkerOptions& options) : options_(options) {}

  // Steps of a round come next: its first, or more.
  void go_on(TrainingState& state);
  void step_taken(TrainingState& state);
  // Of the steps since the round began, before a contribution is made of them. None: there is no
  // proof.
  std::optional<diloco::Digest> root(TrainingState& state);
  // What the state is now, no step led to.
  void drop();

 private:
  bool on() const { return options_.train.prove_steps > 0; }
  void begin(TrainingState& state);
  void add_leaf(TrainingState& state);
  ProofLeaf first_leaf(TrainingState& state) const;

  const WorkerOptions& options_;
  std::optional<RoundProof> proof_;  // of the round under way
  std::uint32_t steps_ = 0;          // of it
  std::optional<ProofLeaf> last_;    // of the round before: the moments are still these
  Saving saving_{"the proof of a round"};
};

}  // namespace causeway::intra
