#include "compression/codecs/payload.h"
#include "compression/codecs/make_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/compression/codecs/samples.h"

namespace causeway::compression {
namespace {

using Bytes = std::vector<std::byte>;
using testing::HasSubstr;

const std::string kSparse = "topk:k=64,chunk=4096,value=2bit,index=elias-fano";
const std::string kDense = "dense:int8,block=4096";

// Three segments, two codecs; owns what the payload refers to.
struct Example {
  std::vector<std::string> specs{kSparse, kDense};
  std::vector<Floats> inputs{draw(gaussian_at, 2 * kChunk, 1), draw(laplace_at, kChunk, 2),
                             draw(student_at, kChunk, 3)};
  std::vector<std::uint8_t> codecs{0, 1, 0};

  Bytes encode(std::size_t segment) const {
    Bytes bytes;
    Floats decoded(inputs[segment].size());
    make_codec(specs[codecs[segment]])->encode(inputs[segment], decoded, bytes);
    return bytes;
  }
  EncodedSegment describe(std::size_t segment, const Bytes& bytes) const {
    return {static_cast<std::uint32_t>(segment), static_cast<std::uint32_t>(inputs[segment].size()),
            codecs[segment], bytes};
  }
  Bytes payload() const {
    const std::vector<Bytes> encoded{encode(0), encode(1), encode(2)};
    const std::vector<EncodedSegment> segments{describe(0, encoded[0]), describe(1, encoded[1]),
                                               describe(2, encoded[2])};
    return write_payload(specs, segments);
  }
};

std::string complaint(std::span<const std::byte> bytes) {
  try {
    read_payload(bytes);
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::malformed);
    return error.what();
  }
  return "accepted";
}

// Reads and decodes everything, as a region would.
Floats decode_all(std::span<const std::byte> bytes) {
  Floats all;
  const Payload payload = read_payload(bytes);
  for (const EncodedSegment& segment : payload.segments) {
    const auto codec = make_codec(payload.codec_specs.at(segment.codec));
    Floats values(segment.element_count);
    codec->decode_add(segment.bytes, 1.0F, values);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// Refused, or decoded to finite numbers.
bool survives(std::span<const std::byte> bytes) {
  try {
    const Floats all = decode_all(bytes);
    return std::all_of(all.begin(), all.end(), [](float x) { return std::isfinite(x); });
  } catch (const std::system_error& error) {
    return error.code() == Errc::malformed || error.code() == Errc::bad_spec;
  }
}

TEST(Payload, ComesBackAsWritten) {
  const Example example;
  const Bytes bytes = example.payload();
  const Payload payload = read_payload(bytes);
  EXPECT_EQ(payload.codec_specs, example.specs);
  ASSERT_EQ(payload.segments.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    const EncodedSegment& segment = payload.segments[i];
    EXPECT_EQ(segment.index, i);
    EXPECT_EQ(segment.element_count, example.inputs[i].size());
    EXPECT_EQ(segment.codec, example.codecs[i]);
    EXPECT_TRUE(std::ranges::equal(segment.bytes, example.encode(i)));
    EXPECT_TRUE(segment.bytes.data() >= bytes.data()) << "a view";
  }
}

TEST(Payload, HasTheDocumentedBytes) {
  const Bytes content{std::byte{0xAA}};
  const std::vector<EncodedSegment> segments{{0x0102, 4096, 0, content}};
  const std::vector<std::string> specs{"x:y"};
  const std::vector<int> expected{'C', 'W', 'P', 'L', 1, 0,    1, 0, 1,   0, 0, 0,  // header
                                  3,   'x', ':', 'y',                               // codecs
                                  2,   1,   0,   0,   0, 0x10, 0, 0,  // index, elements
                                  0,   0,   0,   0,   1, 0,    0, 0, 0xAA};
  const Bytes bytes = write_payload(specs, segments);
  ASSERT_EQ(bytes.size(), expected.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]) << i;
  }
}

// Any number of workers, each with any of the segments, finishing in any order.
TEST(Payload, DoesNotDependOnWhoEncodedWhat) {
  const Example example;
  const Bytes expected = example.payload();
  std::vector<std::size_t> order{0, 1, 2};
  do {
    std::vector<Bytes> encoded(3);
    for (const std::size_t segment : order) encoded[segment] = example.encode(segment);
    std::vector<EncodedSegment> segments;
    for (std::size_t i = 0; i < 3; ++i) segments.push_back(example.describe(i, encoded[i]));
    EXPECT_EQ(write_payload(example.specs, segments), expected);
  } while (std::ranges::next_permutation(order).found);
}

TEST(Payload, ListsEachCodecOnceInOrderOfUse) {
  const Bytes content(3);
  const std::vector<std::string> specs{"unused", "b", "a", "b"};
  const std::vector<EncodedSegment> segments{
      {0, 4096, 3, content}, {1, 4096, 2, content}, {2, 4096, 1, content}};
  const Bytes bytes = write_payload(specs, segments);
  const Payload payload = read_payload(bytes);
  EXPECT_EQ(payload.codec_specs, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(payload.segments[0].codec, 0);
  EXPECT_EQ(payload.segments[1].codec, 1);
  EXPECT_EQ(payload.segments[2].codec, 0);
}

// Encodings of sizes that nothing but their own tables tells, and a codec for each segment: what a
// layer's error budget may come to.
TEST(Payload, CarriesACodecAndASizeOfItsOwnForEachSegment) {
  const std::vector<std::string> specs{
      "topk:k=41,chunk=4096,skip-zeros=yes,value=int4,block=64,index=rice",
      "threshold:t=3,value=2bit,index=rice",
      "topk:k=8,chunk=4096,skip-zeros=yes,value=1bit,block=64,index=elias-fano", "dense:2bit"};
  std::vector<Bytes> encoded(specs.size());
  std::vector<EncodedSegment> segments;
  Floats expected;
  for (std::uint32_t i = 0; i < specs.size(); ++i) {
    Floats input = draw(laplace_at, 2 * kChunk, i);
    std::fill(input.begin() + kChunk + 5, input.end(), 0.0F);
    Floats decoded(input.size());
    make_codec(specs[i])->encode(input, decoded, encoded[i]);
    expected.insert(expected.end(), decoded.begin(), decoded.end());
    segments.push_back({i, 2 * kChunk, static_cast<std::uint8_t>(i), encoded[i]});
  }
  const Bytes good = write_payload(specs, segments);
  EXPECT_EQ(decode_all(good), expected);
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes bytes = good;
    bytes[at] ^= std::byte{1} << at % 8;
    ASSERT_TRUE(survives(bytes)) << at;
  }
}

TEST(Payload, MayBeEmpty) {
  const Bytes bytes = write_payload({}, {});
  EXPECT_EQ(bytes.size(), 12U);
  EXPECT_TRUE(read_payload(bytes).segments.empty());
}

TEST(Payload, CostsWhatTheWireFormatSays) {
  // One full sparse segment: 256 chunks of 84 bytes, and 12 + (1 + 48) + 16 bytes around them.
  const Floats input = draw(gaussian_at, std::size_t{1} << 20);
  Floats decoded(input.size());
  Bytes encoded;
  make_codec(kSparse)->encode(input, decoded, encoded);
  const std::vector<EncodedSegment> segments{{0, 1U << 20, 0, encoded}};
  const std::vector<std::string> specs{kSparse};
  const Bytes bytes = write_payload(specs, segments);
  EXPECT_EQ(bytes.size(), 256U * 84 + 12 + 49 + 16);
  EXPECT_NEAR(8.0 * static_cast<double>(bytes.size()) / static_cast<double>(input.size()), 0.164,
              0.001);
}

TEST(Payload, RefusesEveryTruncation) {
  const Bytes bytes = Example().payload();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THAT(complaint(std::span(bytes).first(length)), HasSubstr("payload")) << length;
  }
}

TEST(Payload, RefusesBytesAtTheEnd) {
  Bytes bytes = Example().payload();
  bytes.push_back(std::byte{0});
  EXPECT_THAT(complaint(bytes), HasSubstr("after the last segment"));
}

TEST(Payload, SurvivesEverySingleByteCorruption) {
  const Example example;
  const Bytes content = example.encode(2);
  const std::vector<EncodedSegment> segments{example.describe(2, content)};
  const Bytes good = write_payload(example.specs, segments);
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes bytes = good;
    for (int value = 0; value < 256; ++value) {
      bytes[at] = static_cast<std::byte>(value);
      ASSERT_TRUE(survives(bytes)) << at << " " << value;
    }
  }
}

TEST(Payload, SurvivesOneFlippedBitInAnyByteOfSeveralSegments) {
  const Bytes good = Example().payload();
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes bytes = good;
    bytes[at] ^= std::byte{1} << at % 8;
    ASSERT_TRUE(survives(bytes)) << at;
  }
}

// Offsets into Example().payload(): header 12, codecs 49 + 22, then 16 per directory entry.
constexpr std::size_t kDirectory = 12 + 49 + 22;

std::string complaint_after(std::size_t at, std::initializer_list<int> values) {
  Bytes bytes = Example().payload();
  for (const int value : values) bytes[at++] = static_cast<std::byte>(value);
  return complaint(bytes);
}

TEST(Payload, SaysWhatIsWrong) {
  EXPECT_THAT(complaint_after(0, {'X'}), HasSubstr("magic"));
  EXPECT_THAT(complaint_after(4, {2}), HasSubstr("version 2"));
  EXPECT_THAT(complaint_after(7, {1}), HasSubstr("reserved"));
  EXPECT_THAT(complaint_after(8, {0xFF, 0xFF, 0xFF, 0xFF}), HasSubstr("more segments than bytes"));
  EXPECT_THAT(complaint_after(13, {0}), HasSubstr("not text"));
  EXPECT_THAT(complaint_after(kDirectory, {1}), HasSubstr("ascending"));
  EXPECT_THAT(complaint_after(kDirectory + 4, {1}), HasSubstr("elements"));
  EXPECT_THAT(complaint_after(kDirectory + 4, {0, 0}), HasSubstr("0 elements"));
  EXPECT_THAT(complaint_after(kDirectory + 7, {0x10}), HasSubstr("elements"));
  EXPECT_THAT(complaint_after(kDirectory + 8, {1}), HasSubstr("codec of segment 0"));
  EXPECT_THAT(complaint_after(kDirectory + 24, {2}), HasSubstr("codec of segment 1"));
  EXPECT_THAT(complaint_after(kDirectory + 24, {0}), HasSubstr("unused codec"));
  EXPECT_THAT(complaint_after(kDirectory + 9, {1}), HasSubstr("reserved"));
  EXPECT_THAT(complaint_after(kDirectory + 15, {0x7F}), HasSubstr("ends within a segment"));
  EXPECT_THAT(complaint_after(kDirectory + 12, {0}), HasSubstr("after the last segment"));
}

TEST(Payload, RefusesACodecListedTwice) {
  Bytes bytes{std::byte{'C'}, std::byte{'W'}, std::byte{'P'}, std::byte{'L'}};
  for (const char value : {'\1', '\0', '\2', '\0', '\0', '\0', '\0', '\0', '\1', 'x', '\1', 'x'}) {
    bytes.push_back(static_cast<std::byte>(value));
  }
  EXPECT_THAT(complaint(bytes), HasSubstr("twice"));
}

}  // namespace
}  // namespace causeway::compression
