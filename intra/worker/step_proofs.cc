#include "intra/worker/step_proofs.h"

#include <omp.h>

#include <utility>

#include "diloco/files/file_io.h"

namespace causeway::intra {

void StepProofs::go_on(TrainingState& state) {
  if (!on()) return;
  const bool begins = state.step_in_round() == 0 && state.work.steps == 0 && state.mark.empty();
  if (begins) return begin(state);
  const bool same = proof_ && proof_->round == state.version && steps_ == state.work.steps;
  if (!same) drop();
}

void StepProofs::begin(TrainingState& state) {
  RoundProof proof{.region = options_.region,
                   .round = state.version,
                   .machine = machine_kind(),
                   .threads = omp_get_max_threads(),
                   .momentum = state.trees.momentum.leaves.empty()
                                   ? diloco::merkle_root(diloco::merkle_leaves(state.momentum))
                                   : state.trees.momentum.root,
                   .leaves = {first_leaf(state)}};
  proof_.reset();
  steps_ = 0;
  const bool kept = saving_.attempt([&] {
    diloco::create_private_directories(proof_directory(options_.directory));
    const diloco::Round kept_rounds = options_.train.proofs_kept;
    if (state.version >= kept_rounds)
      remove_old_proofs(options_.directory, state.version + 1 - kept_rounds);
    write_proof_state(proof_state_file(options_.directory, state.version), state);
  });
  if (kept) proof_ = std::move(proof);
}

// The parameters are the anchor, whose hash is known; the moments are those of the last step.
ProofLeaf StepProofs::first_leaf(TrainingState& state) const {
  ProofLeaf leaf{.data_cursor = state.work.data_cursor};
  leaf.residual = diloco::merkle_root(diloco::merkle_leaves(state.residual));
  if (!last_ || last_->optimizer_steps != state.optimizer_steps ||
      state.trees.anchor.leaves.empty())
    return leaf_after(leaf, 0, 0, state);
  leaf.optimizer_steps = state.optimizer_steps;
  leaf.first_moment = last_->first_moment;
  leaf.second_moment = last_->second_moment;
  leaf.params = state.trees.anchor.root;
  return leaf;
}

void StepProofs::step_taken(TrainingState& state) {
  if (!proof_) return;
  ++steps_;
  if (steps_ % options_.train.prove_steps == 0) add_leaf(state);
}

void StepProofs::add_leaf(TrainingState& state) {
  proof_->leaves.push_back(leaf_after(proof_->leaves.back(), steps_,
                                      static_cast<std::uint64_t>(options_.train.batch), state));
}

std::optional<diloco::Digest> StepProofs::root(TrainingState& state) {
  last_.reset();
  if (!proof_ || steps_ == 0 || proof_->round != state.version || steps_ != state.work.steps) {
    proof_.reset();
    return std::nullopt;
  }
  if (proof_->leaves.back().steps != steps_) add_leaf(state);
  const RoundProof proof = std::move(*proof_);
  proof_.reset();
  last_ = proof.leaves.back();
  const bool kept = saving_.attempt(
      [&] { write_proof(proof_leaves_file(options_.directory, proof.round), proof); });
  if (!kept) return std::nullopt;
  return proof.root();
}

void StepProofs::drop() {
  proof_.reset();
  last_.reset();
}

}  // namespace causeway::intra
