// First in, first out, without copying: sockets read into its last block and write from its first.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>

namespace causeway::wan_sim {

class ByteQueue {
 public:
  static constexpr std::size_t kBlockBytes = 64 * 1024;

  std::size_t size() const { return size_; }

  // Free space at the end, at least one byte and at most `bytes_max`; stays valid until commit.
  std::span<std::byte> prepare(std::size_t bytes_max);
  void commit(std::size_t bytes);  // that many of the prepared bytes were filled

  // The oldest bytes, as many as lie together, at most `bytes_max`; valid until consume. Empty only
  // if the queue is.
  std::span<const std::byte> front(std::size_t bytes_max) const;
  void consume(std::size_t bytes);
  // Of the byte at `place`, counted from the oldest.
  void flip_bit(std::size_t place);

 private:
  using Block = std::unique_ptr<std::byte[]>;
  std::deque<Block> blocks_;
  Block spare_;  // one block kept, so that a steady flow does not allocate
  std::size_t size_ = 0;
  std::size_t begin_ = 0;          // of the bytes in the first block
  std::size_t end_ = kBlockBytes;  // of the bytes in the last block
};

}  // namespace causeway::wan_sim
