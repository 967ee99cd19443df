// Proof that a contribution was trained: hashes of the training state on the way through a round's
// inner steps, in a Merkle tree whose root is in the contribution and in its record, and what a
// region keeps so that it can be checked (docs/proofs.md).
//   proofs/round-T.state    what the steps began with: params, both moments, residual; raw fp32
//   proofs/round-T.leaves   a line for each state on the way
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "diloco/maths/digest.h"
#include "diloco/maths/train.h"
#include "intra/step/training_state.h"

namespace causeway::intra {

// A state after so many of the round's inner steps. Digests are Merkle roots of whole spans.
struct ProofLeaf {
  std::uint32_t steps = 0;
  std::uint64_t data_cursor = 0;      // the region's sample number that the next step begins with
  std::uint64_t optimizer_steps = 0;  // since the moments were zero
  diloco::Digest params{}, first_moment{}, second_moment{}, residual{};
  bool operator==(const ProofLeaf&) const = default;
};

// Of spans that change in a step; the rest is as it was in `before`.
ProofLeaf leaf_after(const ProofLeaf& before, std::uint32_t steps, std::uint64_t samples_per_step,
                     TrainingState& state);
// In words, what differs; empty: nothing does.
std::string difference(const ProofLeaf& one, const ProofLeaf& other);

struct RoundProof {
  std::string region;
  diloco::Round round = 0;
  std::string machine;        // what computed the steps (machine_kind())
  int threads = 1;            // that it used
  diloco::Digest momentum{};  // root of the outer momentum: with that of params, the state digest
  std::vector<ProofLeaf> leaves;

  diloco::Digest root() const;  // over all of these
};

// Of the program and of what it computes with here: its version and compiler, oneDNN, instruction
// sets. Where all are the same, and the threads are as many, steps give the same bits.
std::string machine_kind();

std::filesystem::path proof_directory(const std::filesystem::path& region_directory);
std::filesystem::path proof_state_file(const std::filesystem::path& region_directory,
                                       diloco::Round round);
std::filesystem::path proof_leaves_file(const std::filesystem::path& region_directory,
                                        diloco::Round round);

// Throw std::system_error naming the file.
void write_proof_state(const std::filesystem::path& file, TrainingState& state);
void write_proof(const std::filesystem::path& file, const RoundProof& proof);
// Throw Errc::bad_checkpoint, naming the file, if it is not such a file, is not there, or is larger
// than it can be. The state gets the spans alone; that they are right, the first leaf says.
void read_proof_state(const std::filesystem::path& file, TrainingState& state);
inline constexpr std::size_t kLeavesMax = 1'000'000;
RoundProof read_proof(const std::filesystem::path& file, std::size_t leaves_max = kLeavesMax);

// Removes those of rounds before `first`.
void remove_old_proofs(const std::filesystem::path& region_directory, diloco::Round first);

}  // namespace causeway::intra
