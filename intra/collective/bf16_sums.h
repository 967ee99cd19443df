// Sums over a region's ranks that travel as bfloat16: half the bytes of fp32.
//
//   rank r    values --round--> words --part p to rank p--> parts of all ranks for r
//             own part = sum of these in fp32, in rank order --round--> gathered from all ranks
//
// So each rank's number is rounded once, and the sum once, however many ranks there are, and which
// rank adds up makes no difference. A ring that passes sums on in bfloat16 would round at every
// rank. Every implementation has the same bits, but for those of a NaN.
//
// reduce_scatter_sum() ends with the sum in fp32: that is not rounded.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "intra/collective/collective.h"
#include "intra/collective/gradient_reducer.h"

namespace causeway::intra {

// Room for them, in fp32 words of two numbers.
struct Bf16Room {
  std::size_t own = 0, received = 0;

  std::size_t words() const { return own + received; }
};
// Of the largest bucket, for one rank of so many.
Bf16Room bf16_room(const GradientBuckets& buckets, GradientReducer::Result result, std::size_t rank,
                   std::size_t ranks);

// Sums of spans, and parts, of an even number of elements. All else is the group's.
class Bf16Sums : public ForwardingCollective {
 public:
  void all_reduce_sum(std::span<float> values) override;
  void reduce_scatter_sum(std::span<float> values, std::span<const std::size_t> counts) override;

 protected:
  // `own` and `received` are of bf16_room(), lie where the group's spans do, and outlive this.
  Bf16Sums(Collective& group, std::span<float> own, std::span<float> received)
      : ForwardingCollective(group), own_(own), received_(received) {}

  // Where the spans lie. Each is done when it returns.

  virtual void round(std::span<const float> values, std::span<float> words) = 0;
  // sum <- the sum of `parts`, which lie one after the other, each of as many numbers as it has.
  virtual void add(std::span<const float> parts, std::span<float> sum) = 0;
  virtual void add_and_round(std::span<const float> parts, std::span<float> words) = 0;

 private:
  // Rounds, and exchanges parts of so many words. Returns what was received.
  std::span<const float> exchange(std::span<const float> values,
                                  std::span<const std::size_t> words);

  std::span<float> own_, received_;
};

// For spans in the host's memory.
std::unique_ptr<Collective> make_host_bf16_sums(Collective& group, const Bf16Room& room);

}  // namespace causeway::intra
