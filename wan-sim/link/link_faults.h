// Faults that touch the bytes of a link's connections, not their timing: armed by the timeline, and
// asked by the connection as it delivers. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "wan-sim/base/time.h"

namespace causeway::wan_sim {

class LinkFaults {
 public:
  Time slow_close{0};  // how much longer an end of stream takes

  // One bit of the first byte at or behind this offset of a stream will be flipped.
  void corrupt_from(std::uint64_t offset) { corrupt_from_ = offset; }
  // Where in the `bytes` that a stream delivers next, at `offset`, to flip a bit; disarms.
  std::optional<std::uint64_t> take_corruption(std::uint64_t offset, std::uint64_t bytes) {
    if (!corrupt_from_ || bytes == 0 || *corrupt_from_ >= offset + bytes) return std::nullopt;
    const std::uint64_t place = *corrupt_from_ > offset ? *corrupt_from_ - offset : 0;
    corrupt_from_.reset();
    return place;
  }

  // The connection that delivers the link's next byte number `bytes` is reset behind it.
  void kill_after(std::uint64_t bytes) { kill_after_ = bytes; }
  std::uint64_t deliverable(std::uint64_t bytes) const {
    return kill_after_ ? std::min(bytes, *kill_after_) : bytes;
  }
  // True if that was the connection's end; disarms.
  bool kills_after(std::uint64_t delivered) {
    if (!kill_after_) return false;
    *kill_after_ -= std::min(delivered, *kill_after_);
    if (*kill_after_ > 0) return false;
    kill_after_.reset();
    return true;
  }

 private:
  std::optional<std::uint64_t> corrupt_from_, kill_after_;
};

}  // namespace causeway::wan_sim
