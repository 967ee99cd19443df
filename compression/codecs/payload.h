// A payload: what one region sends for one round. Header, directory, then the encoded segments in
// canonical order. The bytes do not depend on how many workers encoded them. Field by field in
// docs/payload.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compression/base/codec.h"

namespace causeway::compression {

struct EncodedSegment {
  std::uint32_t index = 0;           // position in the canonical list of segments
  std::uint32_t element_count = 0;   // a multiple of kChunk
  std::uint8_t codec = 0;            // index into the payload's codec table
  std::span<const std::byte> bytes;  // the codec's encoding
};

// `codec_specs`: what the segments' `codec` counts in, as Codec::spec() writes them. `segments`:
// ascending index, each exactly once, at most 2^20 elements. The payload's own codec table lists
// the specs in the order of their first use, each once: it may be shorter than `codec_specs` and
// number them differently.
std::vector<std::byte> write_payload(std::span<const std::string> codec_specs,
                                     std::span<const EncodedSegment> segments);
// What comes before the segments' bytes, which follow one after the other.
std::vector<std::byte> payload_head(std::span<const std::string> codec_specs,
                                    std::span<const EncodedSegment> segments);

struct Payload {
  std::vector<std::string> codec_specs;
  std::vector<EncodedSegment> segments;  // views into the bytes given to read_payload
};

// Untrusted bytes: every length and count is checked first. Throws Errc::malformed with what is
// wrong. Whether the segments are those of the run's layout, and the specs those of its
// configuration, is for the caller to check.
Payload read_payload(std::span<const std::byte> bytes);

}  // namespace causeway::compression
