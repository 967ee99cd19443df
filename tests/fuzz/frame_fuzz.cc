// Any bytes at all through the frame parser and the bodies' decoders. They may only be refused with
// LinkError, and what is accepted must encode to the same bytes again: no two byte strings mean the
// same frame.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "inter/frame/frame_body.h"

namespace {

using namespace causeway::inter;

constexpr std::uint32_t kMessageBytesMax = 4096;

void expect_same(const Bytes& encoded, std::span<const std::byte> body) {
  const auto encoded_body = std::span<const std::byte>(encoded).subspan(kFrameHeaderBytes);
  if (encoded_body.size() != body.size() ||
      !std::equal(encoded_body.begin(), encoded_body.end(), body.begin())) {
    std::abort();
  }
}

void decode(const FrameView& frame) {
  switch (frame.type) {
    case FrameType::hello:
      expect_same(encode(decode_hello(frame.body)), frame.body);
      break;
    case FrameType::refuse:
      decode_reason(frame.body);
      break;
    case FrameType::message:
      if (frame.body.size() > kMessageBytesMax) {
        std::abort();
      }
      break;
    case FrameType::ping:
    case FrameType::pong:
      expect_same(encode_number(frame.type, decode_number(frame.body)), frame.body);
      break;
    case FrameType::blob_offer:
    case FrameType::blob_abandon:
    case FrameType::blob_complete:
      expect_same(encode_id(frame.type, decode_id(frame.body)), frame.body);
      break;
    case FrameType::blob_chunk: {
      const BlobChunk chunk = decode_chunk(frame.body);
      Bytes again = encode_chunk(chunk.id, chunk.chunk);
      std::copy(chunk.bytes.begin(), chunk.bytes.end(),
                again.end() - static_cast<std::ptrdiff_t>(chunk.bytes.size()));
      expect_same(again, frame.body);
      break;
    }
    case FrameType::blob_fetch:
      expect_same(encode(decode_fetch(frame.body)), frame.body);
      break;
    case FrameType::blob_ack:
      expect_same(encode(decode_ack(frame.body)), frame.body);
      break;
    case FrameType::blob_decline:
      decode_decline(frame.body);
      break;
    case FrameType::blob_pass:
      expect_same(encode(decode_pass(frame.body)), frame.body);
      break;
    case FrameType::link_report:
      expect_same(encode(decode_report(frame.body)), frame.body);
      break;
    case FrameType::neighbours:
      expect_same(encode(decode_neighbours(frame.body)), frame.body);
      break;
    case FrameType::messages_here:
    case FrameType::messages_here_too:
      expect_same(encode_number(frame.type, decode_number(frame.body)), frame.body);
      break;
    case FrameType::relay:
    case FrameType::relayed:
      expect_same(encode(frame.type, decode_relay(frame.body)), frame.body);
      break;
    case FrameType::accept:
      if (!frame.body.empty()) {
        std::abort();
      }
      break;
  }
}

}  // namespace

// The first byte says in what pieces the rest arrives.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::size_t piece = 1 + data[0];
  auto stream = std::as_bytes(std::span(data + 1, size - 1));
  FrameParser parser(kMessageBytesMax);
  try {
    while (!stream.empty()) {
      const auto space = parser.writable();
      const std::size_t taken = std::min({piece, stream.size(), space.size()});
      std::memcpy(space.data(), stream.data(), taken);
      parser.received(taken);
      stream = stream.subspan(taken);
      while (const auto frame = parser.next()) {
        decode(*frame);
      }
    }
  } catch (const LinkError&) {
  }
  return 0;
}
