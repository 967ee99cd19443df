// Layout, all integers little-endian (docs/payload.md):
//   header      magic[4] "CWPL", u16 version, u8 codec count, u8 zero, u32 segment count
//   codecs      per codec: u8 length, the spec's characters
//   directory   per segment: u32 index, u32 element count, u8 codec, u8[3] zero, u32 byte length
//   bytes       the encodings, one after the other
#include "compression/codecs/payload.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>

#include "compression/base/bytes.h"
#include "compression/base/codec.h"

namespace causeway::compression {
namespace {

// Part of the format: do not renumber.
constexpr std::array kMagic{std::byte{'C'}, std::byte{'W'}, std::byte{'P'}, std::byte{'L'}};
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kEntryBytes = 16;
constexpr std::size_t kSegmentElementsMax = std::size_t{1} << 20;
constexpr std::size_t kCodecsMax = 255;
constexpr std::size_t kSpecBytesMax = 255;

// Fills a buffer that is exactly large enough.
class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : rest_(out) {}

  template <typename Value>
  void put(Value value) {
    store(take(sizeof value), value);
  }
  void put_bytes(std::span<const std::byte> bytes) {
    std::copy(bytes.begin(), bytes.end(), take(bytes.size()));
  }
  void put_zeros(std::size_t count) { std::fill_n(take(count), count, std::byte{0}); }

  bool full() const { return rest_.empty(); }

 private:
  std::byte* take(std::size_t count) {
    assert(count <= rest_.size());
    std::byte* taken = rest_.data();
    rest_ = rest_.subspan(count);
    return taken;
  }

  std::span<std::byte> rest_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::size_t left() const { return rest_.size(); }

  std::span<const std::byte> take(std::size_t count, const char* what) {
    if (count > rest_.size()) fail(Errc::malformed, std::string("payload: ends within ") + what);
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  template <typename Value>
  Value get(const char* what) {
    return load<Value>(take(sizeof(Value), what).data());
  }
  void expect_zeros(std::size_t count, const char* what) {
    for (const std::byte byte : take(count, what)) {
      if (byte == std::byte{0}) continue;
      fail(Errc::malformed, std::string("payload: reserved bytes in ") + what);
    }
  }

 private:
  std::span<const std::byte> rest_;
};

// The codecs in the order in which segments first use them, without repetition, and each segment's
// place among them: one canonical table, however the caller listed its codecs.
struct CodecTable {
  std::vector<std::string> specs;
  std::vector<std::uint8_t> of_segment;
};

CodecTable table_of(std::span<const std::string> specs, std::span<const EncodedSegment> segments) {
  CodecTable table;
  for (const EncodedSegment& segment : segments) {
    assert(segment.codec < specs.size());
    const std::string& spec = specs[segment.codec];
    const auto found = std::find(table.specs.begin(), table.specs.end(), spec);
    table.of_segment.push_back(static_cast<std::uint8_t>(found - table.specs.begin()));
    if (found == table.specs.end()) table.specs.push_back(spec);
  }
  return table;
}

std::size_t head_bytes(const CodecTable& table, std::size_t segments) {
  std::size_t bytes = kHeaderBytes + segments * kEntryBytes;
  for (const std::string& spec : table.specs) bytes += 1 + spec.size();
  return bytes;
}

bool is_printable(std::span<const std::byte> text) {
  return std::all_of(text.begin(), text.end(),
                     [](std::byte c) { return c > std::byte{' '} && c < std::byte{0x7F}; });
}

void check(const EncodedSegment& segment) {
  assert(segment.element_count > 0 && segment.element_count <= kSegmentElementsMax);
  assert(segment.element_count % kChunk == 0);
  assert(segment.bytes.size() <= std::numeric_limits<std::uint32_t>::max());
}

std::string read_spec(Reader& reader) {
  const auto length = reader.get<std::uint8_t>("codec table");
  const auto text = reader.take(length, "codec table");
  if (text.empty() || !is_printable(text)) {
    fail(Errc::malformed, "payload: a codec spec is not text");
  }
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

// A directory entry, and the length of its bytes, which are not at hand yet.
std::pair<EncodedSegment, std::uint32_t> read_entry(Reader& reader) {
  EncodedSegment segment;
  segment.index = reader.get<std::uint32_t>("directory");
  segment.element_count = reader.get<std::uint32_t>("directory");
  segment.codec = reader.get<std::uint8_t>("directory");
  reader.expect_zeros(3, "directory");
  const auto length = reader.get<std::uint32_t>("directory");
  if (segment.element_count == 0 || segment.element_count % kChunk != 0 ||
      segment.element_count > kSegmentElementsMax) {
    fail(Errc::malformed, "payload: segment " + std::to_string(segment.index) + " has " +
                              std::to_string(segment.element_count) + " elements");
  }
  return {segment, length};
}

// Codecs appear in the order of their first use: a segment uses one seen before, or the next.
void check_codec_order(const Payload& payload) {
  std::size_t seen = 0;
  for (const EncodedSegment& segment : payload.segments) {
    if (segment.codec > seen || segment.codec >= payload.codec_specs.size()) {
      fail(Errc::malformed, "payload: codec of segment " + std::to_string(segment.index));
    }
    seen = std::max<std::size_t>(seen, segment.codec + 1U);
  }
  if (seen != payload.codec_specs.size()) fail(Errc::malformed, "payload: unused codec");
}

}  // namespace

std::vector<std::byte> payload_head(std::span<const std::string> codec_specs,
                                    std::span<const EncodedSegment> segments) {
  const CodecTable table = table_of(codec_specs, segments);
  assert(table.specs.size() <= kCodecsMax);
  std::vector<std::byte> out(head_bytes(table, segments.size()));
  Writer writer(out);
  writer.put_bytes(kMagic);
  writer.put(kVersion);
  writer.put(static_cast<std::uint8_t>(table.specs.size()));
  writer.put_zeros(1);
  writer.put(static_cast<std::uint32_t>(segments.size()));
  for (const std::string& spec : table.specs) {
    assert(!spec.empty() && spec.size() <= kSpecBytesMax);
    writer.put(static_cast<std::uint8_t>(spec.size()));
    writer.put_bytes(std::as_bytes(std::span(spec)));
  }
  for (std::size_t i = 0; i < segments.size(); ++i) {
    check(segments[i]);
    assert(i == 0 || segments[i].index > segments[i - 1].index);
    writer.put(segments[i].index);
    writer.put(segments[i].element_count);
    writer.put(table.of_segment[i]);
    writer.put_zeros(3);
    writer.put(static_cast<std::uint32_t>(segments[i].bytes.size()));
  }
  assert(writer.full());
  return out;
}

std::vector<std::byte> write_payload(std::span<const std::string> codec_specs,
                                     std::span<const EncodedSegment> segments) {
  std::vector<std::byte> out = payload_head(codec_specs, segments);
  for (const EncodedSegment& segment : segments)
    out.insert(out.end(), segment.bytes.begin(), segment.bytes.end());
  return out;
}

Payload read_payload(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  if (!std::ranges::equal(reader.take(kMagic.size(), "header"), kMagic)) {
    fail(Errc::malformed, "payload: not a payload (magic)");
  }
  const auto version = reader.get<std::uint16_t>("header");
  if (version != kVersion) fail(Errc::malformed, "payload: version " + std::to_string(version));
  const auto codec_count = reader.get<std::uint8_t>("header");
  reader.expect_zeros(1, "header");
  const auto segment_count = reader.get<std::uint32_t>("header");

  Payload payload;
  for (std::size_t i = 0; i < codec_count; ++i) {
    std::string spec = read_spec(reader);
    if (std::ranges::count(payload.codec_specs, spec) > 0) {
      fail(Errc::malformed, "payload: codec " + spec + " is listed twice");
    }
    payload.codec_specs.push_back(std::move(spec));
  }
  if (segment_count > reader.left() / kEntryBytes) {
    fail(Errc::malformed, "payload: more segments than bytes for them");
  }
  std::vector<std::uint32_t> lengths;
  for (std::size_t i = 0; i < segment_count; ++i) {
    const auto [segment, length] = read_entry(reader);
    if (i > 0 && segment.index <= payload.segments.back().index) {
      fail(Errc::malformed, "payload: segments are not in ascending order");
    }
    payload.segments.push_back(segment);
    lengths.push_back(length);
  }
  check_codec_order(payload);
  for (std::size_t i = 0; i < segment_count; ++i) {
    payload.segments[i].bytes = reader.take(lengths[i], "a segment");
  }
  if (reader.left() > 0) fail(Errc::malformed, "payload: bytes after the last segment");
  return payload;
}

}  // namespace causeway::compression
