// What a region's worker is told to train. The same two orders go from the round protocol through
// the worker socket (worker_messages.h) to the training loop.
#pragma once

#include <cstdint>

namespace causeway::diloco {

// Rounds are counted from 0 over the whole run.
// Round t takes the anchor from version t to version t + 1. Version 0 is the initial weights.
using Round = std::uint64_t;

// Which part of the training data a region reads in a round. It follows from the commit records
// alone: the regions that the record before the round names share each pass over the data in equal
// parts, in the order of their names. When they change, a new pass begins, so that no sample is in
// two parts of one pass. Regions that have data of their own each have one part of one.
struct DataShare {
  std::uint32_t index = 0;  // this region's part,
  std::uint32_t count = 0;  // of so many; 0: nobody said, the configuration holds
  std::uint64_t pass = 0;   // how often the regions have changed
  std::uint64_t begin = 0;  // the region's first sample number in this pass
  bool operator==(const DataShare&) const = default;
};

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

// Nothing can be decided, or the coordinator's disk fails: train on from where the region stands, k
// steps or until called back. A contribution that was made stays in flight.
struct Continue {
  Round round = 0;
  std::uint32_t k = 0;
  std::uint64_t data_cursor = 0;    // where the first Continue of a round starts to read
  std::uint64_t schedule_step = 0;  // of the round, as in Train
  DataShare share{};
};

}  // namespace causeway::diloco
