// Frames as the bytes of a stream: what stream_parser.h takes apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "diloco/worker/stream/frame.h"

namespace causeway::diloco {

// The bytes of queued frames, piece by piece.
class FramePieces {
 public:
  void add(Frame frame) { frames_.push_back(std::move(frame)); }
  bool empty() const { return rest().empty() && !file_ && frames_.empty(); }

  // What to send next, valid until taken() or next(); empty: nothing. Throws errno if the bytes
  // behind a descriptor cannot be read.
  std::span<const char> next();
  void taken(std::size_t count) { at_ += count; }

 private:
  std::span<const char> rest() const { return std::span(piece_).subspan(at_); }
  void set(std::string piece);
  void begin_frame();
  void begin_file();
  void read_file();

  std::deque<Frame> frames_;
  std::deque<Descriptor> waiting_;  // of the frame that was begun
  std::optional<Descriptor> file_;
  std::uint64_t offset_ = 0, left_ = 0;
  std::string piece_;
  std::size_t at_ = 0;
};

}  // namespace causeway::diloco
