// The validation loss: mean loss over windows of `context` tokens, evenly spread over the
// validation part.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "intra/collective/collective.h"
#include "intra/data/data.h"
#include "intra/model/model.h"

namespace causeway::intra {

// Windows are evaluated in blocks of this many, and a block by one rank: so blocks, and with them
// the bits of the result, are the same for any number of ranks.
inline constexpr std::uint64_t kEvaluationBlock = 8;

// Throws Errc::bad_data if the validation part does not hold even one window.
void check_validation(const Dataset& dataset, std::int64_t context);

// Mean loss of a batch, nats per token.
using BatchLoss = std::function<float(const Batch&)>;

// Nats per token over at most `sequences` windows that do not overlap. The ranks share the windows;
// the value does not depend on how many ranks there are. Every rank of `group` calls it.
double validation_loss(std::int64_t context, const BatchLoss& loss, const Dataset& dataset,
                       std::uint64_t sequences, Collective& group);
double validation_loss(Model& model, std::span<const float> params, const Dataset& dataset,
                       std::uint64_t sequences, Collective& group);

// A block of windows: how many, and their mean loss in nats per token.
struct BlockLoss {
  std::uint64_t windows = 0;
  double loss = 0;
};
// What validation_loss() is the mean of, in the order of the validation part.
std::vector<BlockLoss> block_losses(Model& model, std::span<const float> params,
                                    const Dataset& dataset, std::uint64_t sequences);

}  // namespace causeway::intra
