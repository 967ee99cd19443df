// Frames between coordinators: header and reassembly, without any I/O. docs/wire-format.md has the
// layout; frame_body.h the fields of each type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "inter/base/wire.h"
#include "inter/frame/blob_chunks.h"

namespace causeway::inter {

// Values are on the wire.
enum class FrameType : std::uint8_t {
  hello = 1,
  accept = 2,
  refuse = 3,
  message = 4,
  ping = 5,
  pong = 6,
  blob_offer = 7,
  blob_chunk = 8,
  blob_fetch = 9,
  blob_ack = 10,
  blob_decline = 11,
  blob_abandon = 12,
  blob_complete = 13,
  blob_pass = 14,
  link_report = 15,
  neighbours = 16,
  relay = 17,
  relayed = 18,
  messages_here = 19,
  messages_here_too = 20,
};
std::string_view to_string(FrameType type);

constexpr std::uint16_t kFrameMagic = 0x5743;  // "CW"
constexpr std::uint8_t kFrameVersion = 4;
constexpr std::size_t kFrameHeaderBytes = 12;
constexpr std::size_t kFrameTypeAt = 3;  // in the header

constexpr std::size_t kGreetingBytesMax = 1U << 20;
constexpr std::size_t kReasonBytesMax = 64U << 10;
constexpr std::size_t kReportedLinksMax = 256;
constexpr std::size_t kRelayedBytesMax = 16U << 10;  // in one piece
constexpr std::size_t kBlobIdBytes = 32 + 8;         // hash, size

// The header of a frame, for a body of `body_bytes` that the caller appends.
void write_frame_header(ByteWriter& writer, FrameType type, std::size_t body_bytes);

struct FrameView {
  FrameType type;
  std::span<const std::byte> body;
};

// Cuts a byte stream into frames. A header is judged before a byte of its body is stored: an
// unknown type, or a length beyond what its type allows, throws LinkError (Errc::bad_frame,
// Errc::frame_too_large), after which the stream is lost.
class FrameParser {
 public:
  explicit FrameParser(std::uint32_t message_bytes_max) : message_bytes_max_(message_bytes_max) {}

  // Where the next bytes of the stream go; never empty. Invalidates the last frame.
  std::span<std::byte> writable();
  void received(std::size_t size);  // of them, that many were filled

  // The next complete frame. Its body is valid until the next call to writable().
  std::optional<FrameView> next();

  bool inside_frame() const { return end_ > begin_; }

 private:
  std::size_t missing_bytes() const;
  std::size_t body_bytes_max(FrameType type) const;
  void read_header();

  std::uint32_t message_bytes_max_;
  Bytes buffer_;  // [begin_, end_) was received and not yet handed out
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  struct Header {
    FrameType type;
    std::size_t body_bytes;
  };
  std::optional<Header> header_;  // of the frame at begin_, once it was judged
};

}  // namespace causeway::inter
