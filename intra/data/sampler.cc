#include "intra/data/sampler.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <system_error>

#include <fmt/format.h>

#include "intra/base/error.h"
#include "intra/base/splitmix.h"

namespace causeway::intra {

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(size),
      key_(mix(mix(seed + kGolden) + epoch * kGolden)),
      half_bits_(std::max(1U, static_cast<unsigned>(std::bit_width(size - 1) + 1) / 2)) {
  assert(size > 0 && size <= std::uint64_t{1} << 62);
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  assert(index < size_);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  // The network permutes [0, 4^half_bits), which is less than four times too large: walking its
  // cycle until it is back inside permutes [0, size).
  do {
    std::uint64_t left = index >> half_bits_;
    std::uint64_t right = index & mask;
    for (std::uint64_t round = 1; round <= 6; ++round) {
      const std::uint64_t next = left ^ (mix(right + (key_ ^ (round * kGolden))) & mask);
      left = right;
      right = next;
    }
    index = left << half_bits_ | right;
  } while (index >= size_);
  return index;
}

Sampler::Sampler(const Dataset& dataset, std::int64_t context, std::uint64_t seed,
                 std::size_t region_index, std::size_t region_count)
    : dataset_(&dataset), context_(context), seed_(seed) {
  assert(context > 0);
  // The last window's last target is one token past its context.
  const std::uint64_t tokens = dataset.train_tokens();
  sample_count_ = tokens == 0 ? 0 : (tokens - 1) / static_cast<std::uint64_t>(context);
  set_share({.index = static_cast<std::uint32_t>(region_index),
             .count = static_cast<std::uint32_t>(region_count)});
}

void Sampler::set_share(const diloco::DataShare& share) {
  assert(share.index < share.count);
  if (share == share_) return;
  if (sample_count_ < share.count) {
    throw std::system_error(
        Errc::bad_data,
        fmt::format("the training part has {} tokens, which is {} windows of context {} for {} "
                    "regions, and each region needs one; give more data or a smaller model.context",
                    dataset_->train_tokens(), sample_count_, context_, share.count));
  }
  share_ = share;
  // Near-equal ranges: the first sample_count % count regions get one more.
  const std::uint64_t size = sample_count_ / share.count, extra = sample_count_ % share.count;
  range_begin_ = size * share.index + std::min<std::uint64_t>(share.index, extra);
  range_size_ = size + (share.index < extra ? 1 : 0);
}

std::uint64_t Sampler::samples_per_epoch() const {
  return range_size_;
}

void Sampler::read(std::uint64_t cursor, std::span<std::int32_t> tokens,
                   std::span<std::int32_t> targets) const {
  const auto length = static_cast<std::size_t>(context_);
  assert(tokens.size() == length && targets.size() == length);
  const std::uint64_t place = cursor - std::min(cursor, share_.begin);
  const std::uint64_t epoch = (share_.pass << 32) + place / range_size_;
  const Permutation permutation(sample_count_, seed_, epoch);
  const std::uint64_t sample = permutation(range_begin_ + place % range_size_);
  dataset_->read_train(sample * length, tokens);
  dataset_->read_train(sample * length + 1, targets);
}

}  // namespace causeway::intra
