#include "inter/frame_body.h"

#include <cassert>

namespace causeway::inter {
namespace {

[[noreturn]] void bad_frame(const std::string& problem) {
  throw LinkError(Errc::bad_frame, "invalid frame: " + problem);
}

ByteWriter frame_writer(FrameType type, std::size_t body_bytes) {
  ByteWriter writer(kFrameHeaderBytes + body_bytes);
  write_frame_header(writer, type, body_bytes);
  return writer;
}

void write_id(ByteWriter& writer, const BlobId& id) {
  writer.bytes(std::as_bytes(std::span(id.hash)));
  writer.number(id.size_bytes);
}

BlobId read_id(ByteReader& reader) {
  BlobId id;
  const auto hash = reader.bytes(id.hash.size());
  std::transform(hash.begin(), hash.end(), id.hash.begin(),
                 [](std::byte byte) { return static_cast<std::uint8_t>(byte); });
  id.size_bytes = reader.number<std::uint64_t>();
  return id;
}

Bytes encode_position(FrameType type, const BlobId& id, std::uint64_t position) {
  ByteWriter writer = frame_writer(type, kBlobIdBytes + 8);
  write_id(writer, id);
  writer.number(position);
  return writer.take();
}

}  // namespace

Bytes encode(const Hello& hello) {
  assert(hello.sender.size() <= kRegionNameBytesMax);
  assert(hello.greeting.size() <= kGreetingBytesMax);
  ByteWriter writer = frame_writer(
      FrameType::hello, 1 + hello.nonce.size() + 1 + hello.sender.size() + hello.greeting.size());
  writer.number(static_cast<std::uint8_t>(hello.kind));
  writer.bytes(std::as_bytes(std::span(hello.nonce)));
  writer.number(static_cast<std::uint8_t>(hello.sender.size()));
  writer.text(hello.sender);
  writer.text(hello.greeting);
  return writer.take();
}

Bytes encode(const BlobChunk& chunk) {
  assert(chunk.bytes.size() <= kChunkBytesMax);
  ByteWriter writer = frame_writer(FrameType::blob_chunk, kBlobIdBytes + 8 + chunk.bytes.size());
  write_id(writer, chunk.id);
  writer.number(chunk.offset);
  writer.bytes(chunk.bytes);
  return writer.take();
}

Bytes encode(const BlobFetch& fetch) {
  return encode_position(FrameType::blob_fetch, fetch.id, fetch.offset);
}

Bytes encode(const BlobProgress& progress) {
  return encode_position(FrameType::blob_progress, progress.id, progress.received_bytes);
}

Bytes encode(const BlobDecline& decline) {
  const std::string reason = decline.reason.substr(0, kReasonBytesMax);
  ByteWriter writer = frame_writer(FrameType::blob_decline, kBlobIdBytes + reason.size());
  write_id(writer, decline.id);
  writer.text(reason);
  return writer.take();
}

Bytes encode_empty(FrameType type) {
  return frame_writer(type, 0).take();
}

Bytes encode_text(FrameType type, const std::string& text) {
  assert(type == FrameType::message || text.size() <= kReasonBytesMax);
  ByteWriter writer = frame_writer(type, text.size());
  writer.text(text);
  return writer.take();
}

Bytes encode_number(FrameType type, std::uint64_t number) {
  ByteWriter writer = frame_writer(type, 8);
  writer.number(number);
  return writer.take();
}

Bytes encode_id(FrameType type, const BlobId& id) {
  ByteWriter writer = frame_writer(type, kBlobIdBytes);
  write_id(writer, id);
  return writer.take();
}

Hello decode_hello(std::span<const std::byte> body) {
  ByteReader reader(body);
  Hello hello;
  hello.kind = static_cast<ConnectionKind>(reader.number<std::uint8_t>());
  if (hello.kind != ConnectionKind::control && hello.kind != ConnectionKind::data) {
    bad_frame("unknown kind of connection");
  }
  const auto nonce = reader.bytes(hello.nonce.size());
  std::transform(nonce.begin(), nonce.end(), hello.nonce.begin(),
                 [](std::byte byte) { return static_cast<std::uint8_t>(byte); });
  hello.sender = to_text(reader.bytes(reader.number<std::uint8_t>()));
  if (hello.sender.empty() || hello.sender.size() > kRegionNameBytesMax) {
    bad_frame("the sender's name must have 1 to 63 characters");
  }
  hello.greeting = to_text(reader.rest());
  if (hello.greeting.size() > kGreetingBytesMax) {
    bad_frame("greeting too long");
  }
  return hello;
}

std::string decode_reason(std::span<const std::byte> body) {
  return printable(to_text(body));
}

std::uint64_t decode_number(std::span<const std::byte> body) {
  ByteReader reader(body);
  const auto number = reader.number<std::uint64_t>();
  reader.expect_end();
  return number;
}

BlobId decode_id(std::span<const std::byte> body) {
  ByteReader reader(body);
  const BlobId id = read_id(reader);
  reader.expect_end();
  return id;
}

BlobChunk decode_chunk(std::span<const std::byte> body) {
  ByteReader reader(body);
  BlobChunk chunk;
  chunk.id = read_id(reader);
  chunk.offset = reader.number<std::uint64_t>();
  chunk.bytes = reader.rest();
  if (chunk.offset > chunk.id.size_bytes ||
      chunk.bytes.size() > chunk.id.size_bytes - chunk.offset) {
    bad_frame("chunk beyond the end of its blob");
  }
  if (chunk.bytes.empty() && chunk.id.size_bytes > 0) {
    bad_frame("empty chunk");
  }
  return chunk;
}

BlobFetch decode_fetch(std::span<const std::byte> body) {
  ByteReader reader(body);
  BlobFetch fetch;
  fetch.id = read_id(reader);
  fetch.offset = reader.number<std::uint64_t>();
  reader.expect_end();
  if (fetch.offset > fetch.id.size_bytes ||
      (fetch.offset == fetch.id.size_bytes && fetch.offset > 0)) {
    bad_frame("fetch beyond the end of its blob");
  }
  return fetch;
}

BlobProgress decode_progress(std::span<const std::byte> body) {
  ByteReader reader(body);
  BlobProgress progress;
  progress.id = read_id(reader);
  progress.received_bytes = reader.number<std::uint64_t>();
  reader.expect_end();
  if (progress.received_bytes > progress.id.size_bytes) {
    bad_frame("progress beyond the end of its blob");
  }
  return progress;
}

BlobDecline decode_decline(std::span<const std::byte> body) {
  ByteReader reader(body);
  BlobDecline decline;
  decline.id = read_id(reader);
  decline.reason = decode_reason(reader.rest());
  return decline;
}

std::string printable(std::string text) {
  for (char& character : text) {
    const auto code = static_cast<unsigned char>(character);
    if ((code < 0x20 && character != '\n' && character != '\t') || code == 0x7f) {
      character = '?';
    }
  }
  return text;
}

}  // namespace causeway::inter
