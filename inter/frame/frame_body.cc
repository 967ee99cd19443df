#include "inter/frame/frame_body.h"

#include <algorithm>
#include <cassert>

#include "inter/base/region_name.h"
#include "inter/base/text.h"

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
  std::ranges::transform(hash, id.hash.begin(),
                         [](std::byte byte) { return static_cast<std::uint8_t>(byte); });
  id.size_bytes = reader.number<std::uint64_t>();
  return id;
}

void check_name(const std::string& region) {
  if (region.empty() || region.size() > kRegionNameBytesMax)
    bad_frame("a region's name must have 1 to 63 characters");
}

void check_size(const BlobId& id) {
  if (id.size_bytes > kBlobBytesMax) bad_frame("blob of more than 2^40 bytes");
}

std::uint64_t read_chunk_number(ByteReader& reader, const BlobId& id) {
  check_size(id);
  const auto chunk = reader.number<std::uint64_t>();
  if (chunk >= chunk_count(id.size_bytes)) bad_frame("chunk beyond the end of its blob");
  return chunk;
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

Bytes encode_chunk(const BlobId& id, std::uint64_t chunk, Bytes memory) {
  const std::size_t body_bytes = kBlobIdBytes + 8 + chunk_bytes(id, chunk);
  ByteWriter writer(kFrameHeaderBytes + kBlobIdBytes + 8);
  write_frame_header(writer, FrameType::blob_chunk, body_bytes);
  write_id(writer, id);
  writer.number(chunk);
  const Bytes head = writer.take();
  memory.resize(kFrameHeaderBytes + body_bytes);
  std::ranges::copy(head, memory.begin());
  return memory;
}

Bytes encode(const BlobFetch& fetch) {
  const Bytes held = fetch.held.bytes();
  ByteWriter writer = frame_writer(FrameType::blob_fetch, kBlobIdBytes + 1 + 8 + held.size());
  write_id(writer, fetch.id);
  writer.number(static_cast<std::uint8_t>(fetch.order));
  writer.number(fetch.start);
  writer.bytes(held);
  return writer.take();
}

Bytes encode(const BlobAck& ack) {
  ByteWriter writer = frame_writer(FrameType::blob_ack, kBlobIdBytes + 8);
  write_id(writer, ack.id);
  writer.number(ack.chunk);
  return writer.take();
}

Bytes encode(const BlobDecline& decline) {
  const std::string reason = decline.reason.substr(0, kReasonBytesMax);
  ByteWriter writer = frame_writer(FrameType::blob_decline, kBlobIdBytes + reason.size());
  write_id(writer, decline.id);
  writer.text(reason);
  return writer.take();
}

Bytes encode(const BlobPass& pass) {
  ByteWriter writer = frame_writer(FrameType::blob_pass, kBlobIdBytes + pass.to.size());
  write_id(writer, pass.id);
  writer.text(pass.to);
  return writer.take();
}

Bytes encode(const LinkReport& report) {
  assert(report.links.size() <= kReportedLinksMax);
  std::size_t body_bytes = 0;
  for (const LinkReport::Link& link : report.links) body_bytes += 1 + link.to.size() + 8 + 8;
  ByteWriter writer = frame_writer(FrameType::link_report, body_bytes);
  for (const LinkReport::Link& link : report.links) {
    writer.number(static_cast<std::uint8_t>(link.to.size()));
    writer.text(link.to);
    writer.number(link.latency_us);
    writer.number(link.bytes_per_s);
  }
  return writer.take();
}

Bytes encode(const Neighbours& neighbours) {
  assert(neighbours.regions.size() <= kReportedLinksMax);
  std::size_t body_bytes = 0;
  for (const std::string& region : neighbours.regions) body_bytes += 1 + region.size();
  ByteWriter writer = frame_writer(FrameType::neighbours, body_bytes);
  for (const std::string& region : neighbours.regions) {
    writer.number(static_cast<std::uint8_t>(region.size()));
    writer.text(region);
  }
  return writer.take();
}

Bytes encode(FrameType type, const Relay& relay) {
  assert(relay.bytes.size() <= kRelayedBytesMax);
  ByteWriter writer = frame_writer(type, 1 + 8 + 1 + relay.region.size() + relay.bytes.size());
  writer.number(static_cast<std::uint8_t>(relay.step));
  writer.number(relay.number);
  writer.number(static_cast<std::uint8_t>(relay.region.size()));
  writer.text(relay.region);
  writer.bytes(relay.bytes);
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
  if (hello.kind < ConnectionKind::control || hello.kind > ConnectionKind::follower)
    bad_frame("unknown kind of connection");
  const auto nonce = reader.bytes(hello.nonce.size());
  std::ranges::transform(nonce, hello.nonce.begin(),
                         [](std::byte byte) { return static_cast<std::uint8_t>(byte); });
  hello.sender = to_text(reader.bytes(reader.number<std::uint8_t>()));
  check_name(hello.sender);
  hello.greeting = to_text(reader.rest());
  if (hello.greeting.size() > kGreetingBytesMax) bad_frame("greeting too long");
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
  chunk.chunk = read_chunk_number(reader, chunk.id);
  chunk.bytes = reader.rest();
  if (chunk.bytes.size() != chunk_bytes(chunk.id, chunk.chunk))
    bad_frame("chunk of the wrong length");
  return chunk;
}

BlobFetch decode_fetch(std::span<const std::byte> body) {
  ByteReader reader(body);
  BlobFetch fetch;
  fetch.id = read_id(reader);
  const auto order = reader.number<std::uint8_t>();
  if (order > static_cast<std::uint8_t>(Order::descending)) bad_frame("unknown order of chunks");
  fetch.order = static_cast<Order>(order);
  fetch.start = read_chunk_number(reader, fetch.id);
  auto held = ChunkMap::parse(chunk_count(fetch.id.size_bytes), reader.rest());
  if (!held) bad_frame("map of chunks that does not fit its blob");
  fetch.held = std::move(*held);
  return fetch;
}

BlobAck decode_ack(std::span<const std::byte> body) {
  ByteReader reader(body);
  BlobAck ack;
  ack.id = read_id(reader);
  ack.chunk = read_chunk_number(reader, ack.id);
  reader.expect_end();
  return ack;
}

BlobPass decode_pass(std::span<const std::byte> body) {
  ByteReader reader(body);
  BlobPass pass;
  pass.id = read_id(reader);
  check_size(pass.id);
  pass.to = to_text(reader.rest());
  check_name(pass.to);
  return pass;
}

LinkReport decode_report(std::span<const std::byte> body) {
  ByteReader reader(body);
  LinkReport report;
  while (!reader.at_end()) {
    LinkReport::Link link;
    link.to = to_text(reader.bytes(reader.number<std::uint8_t>()));
    check_name(link.to);
    link.latency_us = reader.number<std::uint64_t>();
    link.bytes_per_s = reader.number<std::uint64_t>();
    report.links.push_back(std::move(link));
  }
  return report;
}

Neighbours decode_neighbours(std::span<const std::byte> body) {
  ByteReader reader(body);
  Neighbours neighbours;
  while (!reader.at_end()) {
    neighbours.regions.push_back(to_text(reader.bytes(reader.number<std::uint8_t>())));
    check_name(neighbours.regions.back());
  }
  return neighbours;
}

Relay decode_relay(std::span<const std::byte> body) {
  ByteReader reader(body);
  Relay relay;
  relay.step = static_cast<Relay::Step>(reader.number<std::uint8_t>());
  if (relay.step < Relay::Step::begin || relay.step > Relay::Step::end)
    bad_frame("unknown step of a relayed connection");
  relay.number = reader.number<std::uint64_t>();
  relay.region = to_text(reader.bytes(reader.number<std::uint8_t>()));
  check_name(relay.region);
  relay.bytes = reader.rest();
  if (relay.bytes.empty() != (relay.step != Relay::Step::bytes) ||
      relay.bytes.size() > kRelayedBytesMax)
    bad_frame("relayed bytes where there are none, or too many");
  return relay;
}

BlobDecline decode_decline(std::span<const std::byte> body) {
  ByteReader reader(body);
  BlobDecline decline;
  decline.id = read_id(reader);
  decline.reason = decode_reason(reader.rest());
  return decline;
}

}  // namespace causeway::inter
