#include "inter/frame/frame.h"

#include <cassert>
#include <cstring>

#include <fmt/format.h>

#include "inter/base/region_name.h"

namespace causeway::inter {
namespace {

// A TLS record carries at most this much, so a smaller buffer would split it and a larger one stay
// empty.
constexpr std::size_t kReadBytes = 16U << 10;

}  // namespace

std::string_view to_string(FrameType type) {
  switch (type) {
    case FrameType::hello:
      return "hello";
    case FrameType::accept:
      return "accept";
    case FrameType::refuse:
      return "refuse";
    case FrameType::message:
      return "message";
    case FrameType::ping:
      return "ping";
    case FrameType::pong:
      return "pong";
    case FrameType::blob_offer:
      return "blob offer";
    case FrameType::blob_chunk:
      return "blob chunk";
    case FrameType::blob_fetch:
      return "blob fetch";
    case FrameType::blob_ack:
      return "blob ack";
    case FrameType::blob_decline:
      return "blob decline";
    case FrameType::blob_abandon:
      return "blob abandon";
    case FrameType::blob_complete:
      return "blob complete";
    case FrameType::blob_pass:
      return "blob pass";
    case FrameType::link_report:
      return "link report";
    case FrameType::neighbours:
      return "neighbours";
    case FrameType::relay:
      return "relay";
    case FrameType::relayed:
      return "relayed";
    case FrameType::messages_here:
      return "messages here";
    case FrameType::messages_here_too:
      return "messages here too";
  }
  return "unknown";
}

void write_frame_header(ByteWriter& writer, FrameType type, std::size_t body_bytes) {
  writer.number(kFrameMagic);
  writer.number(kFrameVersion);
  writer.number(static_cast<std::uint8_t>(type));
  writer.number(std::uint32_t{0});  // flags: none exist yet
  writer.number(static_cast<std::uint32_t>(body_bytes));
}

std::span<std::byte> FrameParser::writable() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t wanted = end_ + std::max(missing_bytes(), kReadBytes);
  if (buffer_.size() < wanted) buffer_.resize(wanted);
  return std::span(buffer_).subspan(end_);
}

void FrameParser::received(std::size_t size) {
  assert(size <= buffer_.size() - end_);
  end_ += size;
}

std::optional<FrameView> FrameParser::next() {
  if (!header_ && end_ - begin_ >= kFrameHeaderBytes) read_header();
  if (!header_ || end_ - begin_ < kFrameHeaderBytes + header_->body_bytes) return std::nullopt;
  const FrameView frame{header_->type, std::span<const std::byte>(buffer_).subspan(
                                           begin_ + kFrameHeaderBytes, header_->body_bytes)};
  begin_ += kFrameHeaderBytes + header_->body_bytes;
  header_.reset();
  return frame;
}

std::size_t FrameParser::missing_bytes() const {
  const std::size_t frame_bytes = kFrameHeaderBytes + (header_ ? header_->body_bytes : 0);
  const std::size_t have_bytes = end_ - begin_;
  return frame_bytes > have_bytes ? frame_bytes - have_bytes : 0;
}

void FrameParser::read_header() {
  ByteReader reader(std::span<const std::byte>(buffer_).subspan(begin_, kFrameHeaderBytes));
  if (reader.number<std::uint16_t>() != kFrameMagic)
    throw LinkError(Errc::bad_frame, "invalid frame: wrong magic");
  const auto version = reader.number<std::uint8_t>();
  if (version != kFrameVersion) {
    throw LinkError(Errc::bad_frame, fmt::format("invalid frame: version {}, this build speaks "
                                                 "version {}: run the same program everywhere",
                                                 version, kFrameVersion));
  }
  const auto type = static_cast<FrameType>(reader.number<std::uint8_t>());
  if (type < FrameType::hello || type > FrameType::messages_here_too) {
    throw LinkError(Errc::bad_frame,
                    fmt::format("invalid frame: unknown type {}", static_cast<unsigned>(type)));
  }
  if (reader.number<std::uint32_t>() != 0)
    throw LinkError(Errc::bad_frame, "invalid frame: unknown flags");
  const std::size_t body_bytes = reader.number<std::uint32_t>();
  if (body_bytes > body_bytes_max(type)) {
    throw LinkError(Errc::frame_too_large,
                    fmt::format("frame too large: {} of {} bytes, at most {} are allowed",
                                to_string(type), body_bytes, body_bytes_max(type)));
  }
  header_ = Header{type, body_bytes};
}

std::size_t FrameParser::body_bytes_max(FrameType type) const {
  switch (type) {
    case FrameType::hello:
      return 64 + kRegionNameBytesMax + kGreetingBytesMax;
    case FrameType::refuse:
      return kReasonBytesMax;
    case FrameType::message:
      return message_bytes_max_;
    case FrameType::ping:
    case FrameType::pong:
    case FrameType::messages_here:
    case FrameType::messages_here_too:
      return 8;
    case FrameType::blob_offer:
    case FrameType::blob_abandon:
    case FrameType::blob_complete:
      return kBlobIdBytes;
    case FrameType::blob_chunk:
      return kBlobIdBytes + 8 + kChunkBytesMax;
    case FrameType::blob_fetch:
      return kBlobIdBytes + 1 + 8 + ChunkMap::byte_count(chunk_count(kBlobBytesMax));
    case FrameType::blob_ack:
      return kBlobIdBytes + 8;
    case FrameType::blob_decline:
      return kBlobIdBytes + kReasonBytesMax;
    case FrameType::blob_pass:
      return kBlobIdBytes + kRegionNameBytesMax;
    case FrameType::link_report:
      return kReportedLinksMax * (1 + kRegionNameBytesMax + 8 + 8);
    case FrameType::neighbours:
      return kReportedLinksMax * (1 + kRegionNameBytesMax);
    case FrameType::relay:
    case FrameType::relayed:
      return 1 + 8 + 1 + kRegionNameBytesMax + kRelayedBytesMax;
    case FrameType::accept:
      return 0;
  }
  return 0;
}

}  // namespace causeway::inter
