// Which window of the training part a step reads.
//
// A sample (docs/data.md) is a window of context + 1 tokens starting at a
// multiple of `context`. Sample index = permutation(seed, epoch)[region's range +
// cursor]: each region owns a contiguous range of the permuted order, and the cursor counts the
// region's samples. Ranks split the region's batch, so n workers with batch b equal one with n x b.
// When the regions change, all begin a new pass, which has permutations of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "diloco/maths/train.h"
#include "intra/data/data.h"

namespace causeway::intra {

// A pseudo-random permutation of [0, size), evaluated pointwise in O(1) memory (a Feistel network
// with cycle walking).
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch);
  std::uint64_t operator()(std::uint64_t index) const;

 private:
  std::uint64_t size_;
  std::uint64_t key_;
  unsigned half_bits_;
};

// The regions' ranges are disjoint within an epoch. Each epoch has another permutation, so a region
// sees other samples in each; where ranges differ in size or regions in speed, one region may be an
// epoch ahead of another, and the two may then share samples.
class Sampler {
 public:
  // `region_index` of `region_count`, in sorted-name order. Throws Errc::bad_data if a region's
  // range is empty.
  Sampler(const Dataset& dataset, std::int64_t context, std::uint64_t seed,
          std::size_t region_index, std::size_t region_count);
  // The range and the pass over the data from here on. Throws as the constructor does.
  void set_share(const diloco::DataShare& share);
  std::uint64_t samples_per_epoch() const;  // in this region's range
  // The region's sample number `cursor` (wraps into the next epoch): writes context tokens and
  // their context targets.
  void read(std::uint64_t cursor, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets) const;

 private:
  const Dataset* dataset_;
  std::int64_t context_;
  std::uint64_t seed_, sample_count_ = 0;
  diloco::DataShare share_;
  std::uint64_t range_begin_ = 0, range_size_ = 0;
};

}  // namespace causeway::intra
