// Takes the inner steps of a round again that a region proved, with the trainer that it used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/run/config/config.h"
#include "apps/run/replay/replay_source.h"
#include "diloco/log/record.h"
#include "diloco/maths/layout.h"
#include "diloco/maths/train.h"
#include "intra/step/inner_trainer.h"
#include "intra/worker/round_proof.h"

namespace causeway::run {

// What a region was told to do in a round, as far as the records say: steps, place in the schedule,
// share of the data. A share without a count: it had no part in the round.
diloco::Train order_of(const ReplaySource& source, const std::string& region, diloco::Round round);

// One region's.
class Retraining {
 public:
  // Opens model and data, as its worker did: throws as that does. `layout` outlives this.
  Retraining(const Config& config, const std::string& region,
             const std::filesystem::path& directory, const diloco::Layout& layout);

  struct Result {
    std::vector<intra::ProofLeaf> leaves;  // as far as it got; the first is of what was read
    // Of the contribution that these steps lead to, until this trains again; empty: none.
    std::span<const std::byte> payload{};
  };
  // From the state that the region kept: the steps of `order`, from its data cursor on. `base` is
  // the agreed state of the round. If the first leaf is not the proof's, no step is taken; if one
  // is not, none after it. Throws intra::Errc::bad_checkpoint if no state was kept, and
  // std::system_error if a step cannot be taken.
  Result train(const intra::RoundProof& proof, const diloco::Train& order,
               const diloco::Digest& base);

 private:
  bool take(const intra::InnerStep& step);
  std::span<const std::byte> payload_of(std::uint32_t steps);

  const intra::WorkerOptions options_;
  const diloco::Layout& layout_;
  intra::TrainingState state_;
  std::unique_ptr<intra::Collective> alone_;
  std::unique_ptr<intra::InnerTrainer> trainer_;
};

}  // namespace causeway::run
