// The fields of each frame type. encode() gives a whole frame, header included; the decode
// functions check every length and relation between fields and throw LinkError (Errc::bad_frame).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "inter/frame/blob_chunks.h"
#include "inter/frame/frame.h"

namespace causeway::inter {

enum class ConnectionKind : std::uint8_t {
  control = 1,
  data = 2,
  observer = 3,
  detour = 4,
  follower = 5,
};

// Ties a data connection to the control connection of the same dialling.
using SessionNonce = std::array<std::uint8_t, 16>;

struct Hello {
  ConnectionKind kind = ConnectionKind::control;
  SessionNonce nonce{};
  std::string sender;    // as certified: a region's name, an observer's or a follower's
  std::string greeting;  // of control connections and detours
};

struct BlobChunk {
  BlobId id;
  std::uint64_t chunk = 0;
  std::span<const std::byte> bytes;  // all of the chunk
};

// Asks for the chunks that are not held, beginning with `start`.
struct BlobFetch {
  BlobId id;
  Order order = Order::ascending;
  std::uint64_t start = 0;
  ChunkMap held;  // of chunk_count(id.size_bytes)
};

struct BlobAck {
  BlobId id;
  std::uint64_t chunk = 0;  // stored, or held before
};

// Asks the receiver to push a blob on to another region as soon as it has it.
struct BlobPass {
  BlobId id;
  std::string to;
};

// What the sender's links can do, as far as measured.
struct LinkReport {
  struct Link {
    std::string to;
    std::uint64_t latency_us = 0;  // one way
    std::uint64_t bytes_per_s = 0;
  };
  std::vector<Link> links;
};

// The regions that the sender has a link to now.
struct Neighbours {
  std::vector<std::string> regions;
};

// Of a connection between two regions that a third one carries, which cannot read it: it is
// encrypted from end to end. `relay` goes to the third region, `relayed` comes from it.
struct Relay {
  enum class Step : std::uint8_t { begin = 1, bytes = 2, end = 3 };

  Step step = Step::bytes;
  std::uint64_t number = 0;  // of the connection; whoever begins it draws it
  std::string region;        // for whom it is; from whom, when it comes
  std::span<const std::byte> bytes;
};

struct BlobDecline {
  BlobId id;
  std::string reason;
};

Bytes encode(const Hello& hello);
Bytes encode(const BlobFetch& fetch);
Bytes encode(const BlobAck& ack);
Bytes encode(const BlobDecline& decline);
Bytes encode(const BlobPass& pass);
Bytes encode(const LinkReport& report);
Bytes encode(const Neighbours& neighbours);
Bytes encode(FrameType type, const Relay& relay);  // relay, relayed
// A chunk frame whose bytes the caller fills in: the last chunk_bytes(id, chunk) of it. Takes the
// memory of a frame that is done with.
Bytes encode_chunk(const BlobId& id, std::uint64_t chunk, Bytes memory = {});
Bytes encode_empty(FrameType type);                          // accept
Bytes encode_text(FrameType type, const std::string& text);  // refuse, message
// ping, pong, messages_here, messages_here_too
Bytes encode_number(FrameType type, std::uint64_t number);
// blob_offer, blob_abandon, blob_complete
Bytes encode_id(FrameType type, const BlobId& id);

Hello decode_hello(std::span<const std::byte> body);
std::string decode_reason(std::span<const std::byte> body);  // printable
std::uint64_t decode_number(std::span<const std::byte> body);
BlobId decode_id(std::span<const std::byte> body);
BlobChunk decode_chunk(std::span<const std::byte> body);  // refers into `body`
BlobFetch decode_fetch(std::span<const std::byte> body);
BlobAck decode_ack(std::span<const std::byte> body);
BlobDecline decode_decline(std::span<const std::byte> body);
BlobPass decode_pass(std::span<const std::byte> body);
LinkReport decode_report(std::span<const std::byte> body);
Neighbours decode_neighbours(std::span<const std::byte> body);
Relay decode_relay(std::span<const std::byte> body);  // refers into `body`

}  // namespace causeway::inter
