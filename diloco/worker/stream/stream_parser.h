// Takes frames out of a byte stream, whatever pieces it comes in: frame header (frame.h),
// message, then each blob's length and bytes, which end up behind a descriptor: a sealed memfd.
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

// Frames as the bytes of a stream: what stream_parser.h takes apart.
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

class StreamParser {
 public:
  // Throws Errc::malformed for a frame that is too large, after which the stream is lost.
  void feed(std::span<const std::byte> bytes);
  std::optional<Frame> next();
  bool inside_frame() const { return stage_ != Stage::header || !head_.empty(); }

 private:
  enum class Stage { header, message, blob_size, blob };

  std::size_t wanted() const;
  std::size_t take_head(std::span<const std::byte> bytes);
  std::size_t take_blob(std::span<const std::byte> bytes);
  void advance();
  void begin_message();
  void next_blob();
  void begin_blob();

  Stage stage_ = Stage::header;
  std::string head_;  // of what is not a blob
  std::size_t length_ = 0, blobs_left_ = 0;
  Frame frame_;
  Descriptor blob_;
  std::uint64_t blob_left_ = 0;
  std::deque<Frame> complete_;
};

}  // namespace causeway::diloco
