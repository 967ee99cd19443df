#include "wan-sim/base/byte_queue.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace causeway::wan_sim {

std::span<std::byte> ByteQueue::prepare(std::size_t bytes_max) {
  if (end_ == kBlockBytes) {
    blocks_.push_back(spare_ ? std::move(spare_)
                             : std::make_unique_for_overwrite<std::byte[]>(kBlockBytes));
    end_ = 0;
  }
  return {blocks_.back().get() + end_, std::min(bytes_max, kBlockBytes - end_)};
}

void ByteQueue::commit(std::size_t bytes) {
  assert(bytes <= kBlockBytes - end_);
  end_ += bytes;
  size_ += bytes;
}

std::span<const std::byte> ByteQueue::front(std::size_t bytes_max) const {
  if (size_ == 0) return {};
  const std::size_t together = std::min(size_, kBlockBytes - begin_);
  return {blocks_.front().get() + begin_, std::min(bytes_max, together)};
}

void ByteQueue::consume(std::size_t bytes) {
  assert(bytes <= size_ && bytes <= kBlockBytes - begin_);
  size_ -= bytes;
  begin_ += bytes;
  if (begin_ < kBlockBytes) return;
  spare_ = std::move(blocks_.front());
  blocks_.pop_front();
  begin_ = 0;
}

void ByteQueue::flip_bit(std::size_t place) {
  assert(place < size_);
  place += begin_;
  blocks_[place / kBlockBytes][place % kBlockBytes] ^= std::byte{1};
}

}  // namespace causeway::wan_sim
