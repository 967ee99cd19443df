#include "inter/frame/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "inter/base/retry.h"
#include "inter/frame/frame_body.h"
#include "inter/mesh/mesh.h"

namespace causeway::inter {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kMessageBytesMax = 1000;

void feed(FrameParser& parser, std::span<const std::byte> bytes, std::size_t step) {
  while (!bytes.empty()) {
    const auto space = parser.writable();
    ASSERT_FALSE(space.empty());
    const std::size_t size = std::min({step, bytes.size(), space.size()});
    std::memcpy(space.data(), bytes.data(), size);
    parser.received(size);
    bytes = bytes.subspan(size);
  }
}

Bytes header(std::uint8_t type, std::uint32_t body_bytes) {
  ByteWriter writer(kFrameHeaderBytes);
  write_frame_header(writer, static_cast<FrameType>(type), body_bytes);
  return writer.take();
}

std::string failure_of(Bytes bytes) {
  FrameParser parser(kMessageBytesMax);
  feed(parser, bytes, 1);
  try {
    parser.next();
  } catch (const LinkError& error) {
    return error.reason();
  }
  return "";
}

BlobId some_id(std::uint64_t size) {
  BlobId id;
  id.hash.fill(7);
  id.size_bytes = size;
  return id;
}

TEST(FrameParser, HeaderBytesAreAsDocumented) {
  const Bytes frame = encode_number(FrameType::ping, 0x0102030405060708);
  const std::vector<int> expected{'C', 'W', 4, 5, 0, 0, 0, 0, 8, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1};
  ASSERT_EQ(frame.size(), expected.size());
  for (std::size_t i = 0; i < frame.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(frame[i]), expected[i]) << "byte " << i;
  }
}

TEST(FrameParser, ReassemblesFramesHoweverTheyAreCut) {
  Bytes chunk = encode_chunk(some_id(1U << 20), 3);
  std::fill(chunk.begin() + 60, chunk.end(), std::byte{5});
  const Bytes frames[] = {encode_text(FrameType::message, "hello"), encode_empty(FrameType::accept),
                          chunk, encode_text(FrameType::message, "")};
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{16384}}) {
    FrameParser parser(kMessageBytesMax);
    std::size_t seen = 0;
    for (const Bytes& frame : frames) {
      for (std::size_t at = 0; at < frame.size(); at += step) {
        feed(parser, std::span(frame).subspan(at, std::min(step, frame.size() - at)), step);
        if (const auto got = parser.next()) {
          EXPECT_EQ(at + std::min(step, frame.size() - at), frame.size());
          EXPECT_TRUE(std::equal(got->body.begin(), got->body.end(),
                                 frame.begin() + kFrameHeaderBytes, frame.end()));
          ++seen;
        }
      }
    }
    EXPECT_EQ(seen, 4U);
    EXPECT_FALSE(parser.inside_frame());
  }
}

TEST(FrameParser, HandsOutSeveralFramesThatArrivedTogether) {
  Bytes stream;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const Bytes frame = encode_number(FrameType::pong, i);
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  FrameParser parser(kMessageBytesMax);
  feed(parser, stream, stream.size());
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto frame = parser.next();
    ASSERT_TRUE(frame);
    EXPECT_EQ(decode_number(frame->body), i);
  }
  EXPECT_FALSE(parser.next());
}

TEST(FrameParser, RefusesAnOversizeFrameFromItsHeaderAlone) {
  EXPECT_EQ(failure_of(header(4, kMessageBytesMax)), "");
  EXPECT_THAT(failure_of(header(4, kMessageBytesMax + 1)), HasSubstr("at most 1000"));
  EXPECT_THAT(failure_of(header(4, 0xffffffff)), HasSubstr("frame too large"));
  EXPECT_THAT(failure_of(header(2, 1)), HasSubstr("frame too large: accept"));
  FrameParser parser(kMessageBytesMax);
  feed(parser, header(4, 0xffffffff), 12);
  EXPECT_THROW(parser.next(), LinkError);
  EXPECT_LT(parser.writable().size(), 100'000U) << "the announced length must not be allocated";
}

TEST(FrameParser, RefusesForeignHeaders) {
  Bytes bytes = header(4, 0);
  bytes[0] = std::byte{'G'};
  EXPECT_THAT(failure_of(bytes), HasSubstr("magic"));
  bytes = header(4, 0);
  bytes[2] = std::byte{9};
  EXPECT_THAT(failure_of(bytes), HasSubstr("version 9"));
  bytes = header(4, 0);
  bytes[5] = std::byte{1};
  EXPECT_THAT(failure_of(bytes), HasSubstr("flags"));
  EXPECT_THAT(failure_of(header(0, 0)), HasSubstr("unknown type 0"));
  EXPECT_THAT(failure_of(header(21, 0)), HasSubstr("unknown type 21"));
}

std::span<const std::byte> body(const Bytes& frame) {
  return std::span(frame).subspan(kFrameHeaderBytes);
}

TEST(FrameBody, HelloSurvivesTheWire) {
  Hello hello{ConnectionKind::data, {1, 2, 3}, "us-east", std::string("a\0b", 3)};
  const Hello decoded = decode_hello(body(encode(hello)));
  EXPECT_EQ(decoded.kind, hello.kind);
  EXPECT_EQ(decoded.nonce, hello.nonce);
  EXPECT_EQ(decoded.sender, hello.sender);
  EXPECT_EQ(decoded.greeting, hello.greeting);
}

// Three chunks, the last one of 100 bytes.
constexpr std::uint64_t kThreeChunks = 2 * kSmallChunkBytes + 100;

ChunkMap second_of_three() {
  ChunkMap map(3);
  map.insert(1);
  return map;
}

TEST(FrameBody, BlobFramesSurviveTheWire) {
  const BlobId id = some_id(kThreeChunks);
  Bytes chunk_frame = encode_chunk(id, 2);
  std::fill(chunk_frame.end() - 100, chunk_frame.end(), std::byte{9});
  const BlobChunk chunk = decode_chunk(body(chunk_frame));
  EXPECT_EQ(chunk.id, id);
  EXPECT_EQ(chunk.chunk, 2U);
  EXPECT_EQ(Bytes(chunk.bytes.begin(), chunk.bytes.end()), Bytes(100, std::byte{9}));
  const Bytes fetch_frame = encode(BlobFetch{id, Order::descending, 2, second_of_three()});
  const BlobFetch fetch = decode_fetch(body(fetch_frame));
  EXPECT_EQ(fetch.order, Order::descending);
  EXPECT_EQ(fetch.start, 2U);
  EXPECT_EQ(fetch.held.bytes(), second_of_three().bytes());
  EXPECT_EQ(decode_ack(body(encode(BlobAck{id, 1}))).chunk, 1U);
  EXPECT_EQ(decode_decline(body(encode(BlobDecline{id, "full"}))).reason, "full");
  EXPECT_EQ(decode_id(body(encode_id(FrameType::blob_complete, id))), id);
}

TEST(FrameBody, WhatIsRelayedSurvivesTheWire) {
  EXPECT_THAT(decode_neighbours(body(encode(Neighbours{{"eu", "us-east"}}))).regions,
              testing::ElementsAre("eu", "us-east"));
  const Bytes piece(kRelayedBytesMax, std::byte{9});
  const Bytes frame = encode(FrameType::relay, {.step = Relay::Step::bytes,
                                                .number = 0x0102030405060708,
                                                .region = std::string(63, 'r'),
                                                .bytes = piece});
  const Relay relay = decode_relay(body(frame));
  EXPECT_EQ(relay.step, Relay::Step::bytes);
  EXPECT_EQ(relay.number, 0x0102030405060708U);
  EXPECT_EQ(relay.region, std::string(63, 'r'));
  EXPECT_EQ(Bytes(relay.bytes.begin(), relay.bytes.end()), piece);
  EXPECT_EQ(failure_of(frame), "") << "the longest there is";
}

TEST(FrameBody, RefusesWhatCannotBeRelayed) {
  const Bytes one{std::byte{1}};
  const auto refused = [](const Bytes& frame) {
    EXPECT_THROW(decode_relay(body(frame)), LinkError);
  };
  refused(encode(FrameType::relay, {.step = Relay::Step(0), .region = "b", .bytes = {}}));
  refused(encode(FrameType::relay, {.step = Relay::Step(4), .region = "b", .bytes = {}}));
  refused(encode(FrameType::relay, {.step = Relay::Step::begin, .region = "b", .bytes = one}));
  refused(encode(FrameType::relay, {.step = Relay::Step::end, .region = "b", .bytes = one}));
  refused(encode(FrameType::relay, {.step = Relay::Step::bytes, .region = "b", .bytes = {}}));
  refused(encode(FrameType::relay, {.step = Relay::Step::begin, .region = "", .bytes = {}}));
  EXPECT_THROW(decode_neighbours(body(encode(Neighbours{{""}}))), LinkError);
}

TEST(FrameBody, RefusesChunksOutsideTheBlobOrOfTheWrongLength) {
  const BlobId id = some_id(kThreeChunks);
  Bytes chunk = encode_chunk(id, 2);
  EXPECT_NO_THROW(decode_chunk(body(chunk)));
  EXPECT_THROW(decode_chunk(body(chunk).first(body(chunk).size() - 1)), LinkError);
  chunk[kFrameHeaderBytes + kBlobIdBytes] = std::byte{3};
  EXPECT_THROW(decode_chunk(body(chunk)), LinkError) << "there is no fourth chunk";
  EXPECT_NO_THROW(decode_chunk(body(encode_chunk(some_id(0), 0))));
  EXPECT_THROW(decode_ack(body(encode(BlobAck{id, 3}))), LinkError);
  EXPECT_THROW(decode_ack(body(encode(BlobAck{id, ~0ULL}))), LinkError);
  EXPECT_THROW(decode_ack(body(encode(BlobAck{some_id(~0ULL), 0}))), LinkError);
}

TEST(FrameBody, RoutingFramesSurviveTheWire) {
  const BlobId id = some_id(100);
  const BlobPass pass = decode_pass(body(encode(BlobPass{id, "us-east"})));
  EXPECT_EQ(pass.id, id);
  EXPECT_EQ(pass.to, "us-east");
  const Bytes frame = encode(LinkReport{{{"eu", 40'000, 12'500'000}, {"us-east", 1, 2}}});
  const LinkReport report = decode_report(body(frame));
  ASSERT_EQ(report.links.size(), 2U);
  EXPECT_EQ(report.links[0].to, "eu");
  EXPECT_EQ(report.links[0].latency_us, 40'000U);
  EXPECT_EQ(report.links[0].bytes_per_s, 12'500'000U);
  EXPECT_THROW(decode_report(body(frame).first(body(frame).size() - 1)), LinkError);
  EXPECT_THROW(decode_pass(body(encode(BlobPass{id, ""}))), LinkError);
  EXPECT_THROW(decode_pass(body(encode(BlobPass{some_id(~0ULL), "eu"}))), LinkError);
}

TEST(FrameBody, RefusesFetchesThatMakeNoSense) {
  const BlobId id = some_id(kThreeChunks);
  EXPECT_THROW(decode_fetch(body(encode(BlobFetch{id, Order::ascending, 3, ChunkMap(3)}))),
               LinkError);
  EXPECT_THROW(decode_fetch(body(encode(BlobFetch{id, Order{2}, 0, ChunkMap(3)}))), LinkError);
  EXPECT_THROW(decode_fetch(body(encode(BlobFetch{id, Order::ascending, 0, ChunkMap(9)}))),
               LinkError)
      << "a map for another number of chunks";
  EXPECT_THROW(decode_fetch(body(encode(BlobFetch{some_id(~0ULL), {}, 0, ChunkMap(3)}))),
               LinkError);
}

TEST(FrameBody, RefusesTruncatedAndOverlongBodies) {
  const Bytes fetch = encode(BlobFetch{some_id(kThreeChunks), {}, 1, second_of_three()});
  for (std::size_t size = 0; size < body(fetch).size(); ++size) {
    EXPECT_THROW(decode_fetch(body(fetch).first(size)), LinkError) << size;
  }
  Bytes longer = fetch;
  longer.push_back(std::byte{0});
  EXPECT_THROW(decode_fetch(body(longer)), LinkError);
  const Bytes hello = encode(Hello{ConnectionKind::control, {}, "us", ""});
  for (std::size_t size = 0; size < body(hello).size(); ++size) {
    EXPECT_THROW(decode_hello(body(hello).first(size)), LinkError) << size;
  }
}

TEST(FrameBody, ReasonsCannotForgeTerminalOutput) {
  const Bytes frame = encode_text(FrameType::refuse, "a\x1b[2J\nb\r\x7f");
  EXPECT_EQ(decode_reason(body(frame)), "a?[2J\nb??");
}

TEST(Backoff, DoublesUpToItsMaximumWithinTheUpperHalf) {
  using std::chrono::milliseconds;
  Backoff backoff(milliseconds(100), milliseconds(1000), 1);
  for (const int limit : {100, 200, 400, 800, 1000, 1000}) {
    const auto delay = backoff.next();
    EXPECT_LE(delay, milliseconds(limit));
    EXPECT_GE(delay, milliseconds(limit / 2));
  }
  backoff.reset();
  EXPECT_LE(backoff.next(), milliseconds(100));
}

TEST(Backoff, IsDeterministicAndDiffersBySeed) {
  using std::chrono::milliseconds;
  Backoff a(milliseconds(1 << 20), milliseconds(1 << 20), 1);
  Backoff b(milliseconds(1 << 20), milliseconds(1 << 20), 1);
  Backoff c(milliseconds(1 << 20), milliseconds(1 << 20), 2);
  const auto first = a.next();
  EXPECT_EQ(first, b.next());
  EXPECT_NE(first, c.next());
}

TEST(Endpoint, ParsesNamesAndAddresses) {
  EXPECT_EQ(parse_endpoint("example.org:80").host, "example.org");
  EXPECT_EQ(parse_endpoint("127.0.0.1:65535").port, 65535);
  EXPECT_EQ(parse_endpoint("[::1]:7").host, "::1");
  EXPECT_EQ(to_string(parse_endpoint("[fe80::1]:7")), "[fe80::1]:7");
  EXPECT_EQ(to_string(parse_endpoint("a-b:0")), "a-b:0");
}

TEST(Endpoint, RefusesEverythingElseAndSaysWhatIsAllowed) {
  for (const char* text : {"", "a", ":1", "a:", "a:b", "a:65536", "a:-1", "a:1x", "::1:7", "[::1]",
                           "[zz]:1", "[]:1", "a b:1", "http://a:1"}) {
    try {
      parse_endpoint(text);
      ADD_FAILURE() << text << " was accepted";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), Errc::bad_address);
      EXPECT_THAT(error.what(), HasSubstr("HOST:PORT"));
    }
  }
}

std::string why_not_listening(std::uint16_t port, int error) {
  try {
    throw_cannot_listen({"127.0.0.1", port}, {error, asio::error::get_system_category()});
  } catch (const std::system_error& refused) {
    return refused.what();
  }
}

TEST(Endpoint, WhatForbidsAPortIsNamedByItsNumber) {
  EXPECT_THAT(why_not_listening(443, EACCES), HasSubstr("ports below 1024 are root's"));
  EXPECT_THAT(why_not_listening(7700, EACCES), HasSubstr("ip_unprivileged_port_start"));
  EXPECT_THAT(why_not_listening(0, EACCES), HasSubstr("a rule of this host"));
}

// Whoever watches over the process starts it again, and a coordinator whose disk failed for want of
// descriptors tries again.
TEST(Endpoint, IsNotToBlameWhereTheProcessHasNoDescriptor) {
  const std::error_code none(EMFILE, asio::error::get_system_category());
  try {
    throw_cannot_listen({"127.0.0.1", 7700}, none);
  } catch (const std::system_error& refused) {
    EXPECT_EQ(refused.code(), std::errc::too_many_files_open);
    EXPECT_STREQ(refused.what(), "cannot listen on 127.0.0.1:7700: Too many open files");
  }
  const std::error_code no_interface(ENODEV, asio::error::get_system_category());
  try {
    throw_cannot_listen({"fe80::1", 7700}, no_interface);
  } catch (const std::system_error& refused) {
    EXPECT_EQ(refused.code(), Errc::cannot_listen) << "another try does not help";
  }
}

}  // namespace
}  // namespace causeway::inter
