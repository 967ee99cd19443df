// Which part of the training data a region reads in a round. It follows from the commit records
// alone: the regions that the record before the round names share each pass over the data in equal
// parts, in the order of their names. When they change, a new pass begins, so that no sample is in
// two parts of one pass. Regions that have data of their own each have one part of one.
#pragma once

#include <cstdint>

namespace causeway::diloco {

struct DataShare {
  std::uint32_t index = 0;  // this region's part,
  std::uint32_t count = 0;  // of so many; 0: nobody said, the configuration holds
  std::uint64_t pass = 0;   // how often the regions have changed
  std::uint64_t begin = 0;  // the region's first sample number in this pass
  bool operator==(const DataShare&) const = default;
};

}  // namespace causeway::diloco
