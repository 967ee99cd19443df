// The fields of each frame type. encode() gives a whole frame, header included; the decode
// functions check every length and relation between fields and throw LinkError (Errc::bad_frame).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "inter/blob.h"
#include "inter/frame.h"

namespace causeway::inter {

enum class ConnectionKind : std::uint8_t { control = 1, data = 2 };

// Ties a data connection to the control connection of the same dialling.
using SessionNonce = std::array<std::uint8_t, 16>;

struct Hello {
  ConnectionKind kind = ConnectionKind::control;
  SessionNonce nonce{};
  std::string sender;    // region name
  std::string greeting;  // empty on data connections
};

struct BlobChunk {
  BlobId id;
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;  // empty only if the blob is
};

struct BlobFetch {
  BlobId id;
  std::uint64_t offset = 0;
};

struct BlobProgress {
  BlobId id;
  std::uint64_t received_bytes = 0;  // the whole size: complete and hash-checked
};

struct BlobDecline {
  BlobId id;
  std::string reason;
};

Bytes encode(const Hello& hello);
Bytes encode(const BlobChunk& chunk);
Bytes encode(const BlobFetch& fetch);
Bytes encode(const BlobProgress& progress);
Bytes encode(const BlobDecline& decline);
Bytes encode_empty(FrameType type);                          // accept, alive
Bytes encode_text(FrameType type, const std::string& text);  // refuse, message
Bytes encode_number(FrameType type, std::uint64_t number);   // ping, pong
Bytes encode_id(FrameType type, const BlobId& id);           // blob_offer, blob_abandon

Hello decode_hello(std::span<const std::byte> body);
std::string decode_reason(
    std::span<const std::byte> body);  // printable: control characters become '?'
std::uint64_t decode_number(std::span<const std::byte> body);
BlobId decode_id(std::span<const std::byte> body);
BlobChunk decode_chunk(std::span<const std::byte> body);  // refers into `body`
BlobFetch decode_fetch(std::span<const std::byte> body);
BlobProgress decode_progress(std::span<const std::byte> body);
BlobDecline decode_decline(std::span<const std::byte> body);

// Untrusted text as a log may show it: newlines and tabs kept, other control characters replaced.
std::string printable(std::string text);

}  // namespace causeway::inter
