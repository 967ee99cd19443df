// What a region's worker is told to train. The same two orders go from the round protocol through
// the worker socket (worker_messages.h) to the training loop.
#pragma once

#include <cstdint>

#include "diloco/maths/data_share.h"
#include "diloco/maths/round_number.h"

namespace causeway::diloco {

// Run k inner steps, then contribute.
struct Train {
  Round round = 0;
  std::uint32_t k = 0;
  std::uint64_t data_cursor = 0;
  // Nominal inner steps of all earlier rounds: the learning rate's.
  std::uint64_t schedule_step = 0;
  DataShare share{};
  // Inner steps to go on with after contributing, before asking for the outcome: the round is
  // decided meanwhile. They are the first of the next round.
  std::uint32_t ahead = 0;
};

// The worker has contributed, and nothing can be decided: train on from where the region stands, k
// steps or until called back. The contribution stays in flight.
struct Continue {
  Round round = 0;
  std::uint32_t k = 0;
  std::uint64_t data_cursor = 0;    // where the first Continue of a round starts to read
  std::uint64_t schedule_step = 0;  // of the round, as in Train
  DataShare share{};
};

// The steps of `train`, as an order that leaves the contribution in flight.
inline Continue without_contributing(const Train& train) {
  return {train.round, train.k, train.data_cursor, train.schedule_step, train.share};
}

}  // namespace causeway::diloco
