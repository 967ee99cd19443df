// Control frames on their way to a peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "inter/base/limits.h"
#include "inter/frame/frame.h"

namespace causeway::inter {

class ControlQueue {
 public:
  explicit ControlQueue(std::uint32_t message_bytes_max)
      : bytes_max_(kQueuedMessagesMax * (kFrameHeaderBytes + message_bytes_max) +
                   kQueuedFramesBytes) {}

  void add(Bytes frame) {
    bytes_ += frame.size();
    frames_.push_back(std::move(frame));
  }
  // The oldest frame, with as many of the next ones as one TLS record holds.
  Bytes take() {
    Bytes together;
    do {
      const Bytes& frame = frames_.front();
      together.insert(together.end(), frame.begin(), frame.end());
      frames_.pop_front();
    } while (!frames_.empty() && together.size() + frames_.front().size() <= kRecordBytes);
    bytes_ -= together.size();
    return together;
  }

  bool empty() const { return frames_.empty(); }
  std::size_t bytes() const { return bytes_; }
  bool takes_relayed() const { return bytes_ < bytes_max_ / 2; }  // or it keeps that for others
  bool is_too_long() const { return bytes_ > bytes_max_; }        // the peer does not read

 private:
  static constexpr std::size_t kRecordBytes = 16U << 10;

  std::size_t bytes_max_;
  std::deque<Bytes> frames_;
  std::size_t bytes_ = 0;
};

}  // namespace causeway::inter
