// The device's logic for one chunk, played on the CPU, against the codecs: same bytes, same
// residuals, same norms, same refusals.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "compression/base/codec.h"
#include "compression/codecs/feedback.h"
#include "compression/codecs/make_codec.h"
#include "compression/cuda/chunk_int8.h"
#include "compression/cuda/chunk_topk_decode.h"
#include "compression/cuda/device_format.h"
#include "tests/compression/base/chunks.h"
#include "tests/compression/cuda/serial_group.h"

namespace causeway::compression::cuda {
namespace {

constexpr float kBeta = 0.95F;
using Bytes = std::vector<std::uint8_t>;

struct Outcome {
  Bytes bytes{};
  Floats rest{};
  EncodeStats norms{};
};

void expect_same(const Outcome& device, const Outcome& codec) {
  EXPECT_EQ(device.bytes, codec.bytes);
  EXPECT_TRUE(same_bits(device.rest, codec.rest));
  EXPECT_EQ(device.norms.input_norm_squared, codec.norms.input_norm_squared);
  EXPECT_EQ(device.norms.error_norm_squared, codec.norms.error_norm_squared);
}

Outcome by_codec(const std::string& spec, const Floats& delta, const Floats& residual) {
  Outcome outcome{.rest = residual};
  std::vector<std::byte> bytes;
  outcome.norms = encode_with_feedback(*make_codec(spec), delta, kBeta, outcome.rest, bytes);
  for (const std::byte byte : bytes) outcome.bytes.push_back(std::to_integer<std::uint8_t>(byte));
  return outcome;
}

// encode: one of the chunk encoders. The delta's memory becomes the next residual's.
template <typename Memory, typename Format, typename Encode>
Outcome by_lanes(const Format& format, const Floats& delta, const Floats& residual, bool backwards,
                 const Encode& encode) {
  SerialGroup<kChunkLanes> group(backwards);
  const auto memory = std::make_unique<Memory>();
  std::memset(static_cast<void*>(memory.get()), 0xEE, sizeof(Memory));
  Outcome outcome{.bytes = Bytes(format.bytes()), .rest = delta};
  ChunkNorms norms;
  const DeviceChunk chunk{outcome.rest.data(), residual.data(), outcome.rest.data(), kBeta};
  EXPECT_TRUE(encode(group, format, chunk, *memory, outcome.bytes.data(), norms));
  outcome.norms = {norms.input, norms.error};
  return outcome;
}

Outcome topk_by_lanes(std::size_t k, const Floats& delta, const Floats& residual, bool backwards) {
  return by_lanes<TopKMemory>(TopKFormat{{k}}, delta, residual, backwards,
                              [](auto&&... of) { return encode_chunk(of...); });
}

TEST(ChunkOnLanes, EncodesTopKAsTheCodecDoes) {
  const Floats residual = draw(laplace_at, kChunk, 77, 1e-3);
  for (const Floats& delta : chunks()) {
    for (const std::size_t k : {1U, 2U, 41U, 64U, 128U, 256U, 257U, 1000U, 2048U, 4095U, 4096U}) {
      SCOPED_TRACE(k);
      const Outcome codec = by_codec("topk:k=" + std::to_string(k), delta, residual);
      expect_same(topk_by_lanes(k, delta, residual, false), codec);
      expect_same(topk_by_lanes(k, delta, residual, true), codec);
    }
  }
}

Outcome int8_by_lanes(std::size_t block, const Floats& delta, const Floats& residual,
                      bool backwards) {
  return by_lanes<Int8Memory>(Int8Format{block}, delta, residual, backwards,
                              [](auto&&... of) { return encode_chunk(of...); });
}

TEST(ChunkOnLanes, EncodesInt8AsTheCodecDoes) {
  const Floats residual = draw(laplace_at, kChunk, 77, 1e-3);
  for (const Floats& delta : chunks()) {
    for (std::size_t block = 1; block <= kChunk; block *= 2) {
      SCOPED_TRACE(block);
      const Outcome codec = by_codec("dense:int8,block=" + std::to_string(block), delta, residual);
      expect_same(int8_by_lanes(block, delta, residual, false), codec);
      expect_same(int8_by_lanes(block, delta, residual, true), codec);
    }
  }
}

TEST(ChunkOnLanes, WritesNothingWhenNotFinite) {
  const auto memory = std::make_unique<TopKMemory>();
  const auto int8_memory = std::make_unique<Int8Memory>();
  const Floats residual(kChunk, 1.0F);
  for (const std::size_t at : {0U, 255U, 256U, 4095U}) {
    for (const float bad : {std::nanf(""), -HUGE_VALF}) {
      Floats delta = draw(gaussian_at, kChunk);
      delta[at] = bad;
      Floats next(kChunk, 7.0F);
      Bytes bytes(2 * kChunk, 7);
      ChunkNorms norms{7, 7};
      SerialGroup<kChunkLanes> group(false);
      const DeviceChunk chunk{delta.data(), residual.data(), next.data(), kBeta};
      EXPECT_FALSE(encode_chunk(group, TopKFormat{{64}}, chunk, *memory, bytes.data(), norms));
      EXPECT_FALSE(encode_chunk(group, Int8Format{128}, chunk, *int8_memory, bytes.data(), norms));
      EXPECT_EQ(next, Floats(kChunk, 7.0F));
      EXPECT_EQ(bytes, Bytes(2 * kChunk, 7));
      EXPECT_EQ(norms.input, 7);
    }
  }
}

// Whether the codec accepts, and what it makes of the accumulator then.
bool codec_decodes(const Codec& codec, const Bytes& bytes, float weight, Floats& accumulator) {
  try {
    codec.decode_add(std::as_bytes(std::span(bytes)), weight, accumulator);
    return true;
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::malformed);
    return false;
  }
}

// decode(bytes, accumulator): one of the chunk decoders. As encoded, and with single bits changed.
template <typename Decode>
void expect_decodes_alike(const std::string& spec, const Floats& chunk, const Decode& decode) {
  constexpr float kWeight = 0.3F;
  const auto codec = make_codec(spec);
  const Bytes encoded = by_codec(spec, chunk, Floats(kChunk)).bytes;
  const Floats before = draw(gaussian_at, kChunk, 5);
  for (std::uint64_t flip = 0; flip <= 300; ++flip) {
    Bytes bytes = encoded;
    if (flip > 0) bytes[mix(flip) % bytes.size()] ^= static_cast<std::uint8_t>(1U << flip % 8);
    Floats by_codec = before;
    Floats by_lanes = before;
    const bool accepted = codec_decodes(*codec, bytes, kWeight, by_codec);
    ASSERT_EQ(decode(bytes, kWeight, by_lanes), accepted) << spec << " " << flip;
    if (accepted) {
      ASSERT_TRUE(same_bits(by_lanes, by_codec)) << spec << " " << flip;
    }
  }
}

TEST(ChunkOnLanes, DecodesTopKAsTheCodecDoes) {
  const auto memory = std::make_unique<TopKDecodeMemory>();
  for (const Floats& chunk : chunks()) {
    for (const std::size_t k : {1U, 3U, 41U, 64U, 500U, 2048U, 4096U}) {
      const auto decode = [&](const Bytes& bytes, float weight, Floats& accumulator) {
        SerialGroup<32> group(weight > 0.5F);
        return decode_add_chunk(group, TopKFormat{{k}}, bytes.data(), weight, accumulator.data(),
                                *memory);
      };
      expect_decodes_alike("topk:k=" + std::to_string(k), chunk, decode);
    }
  }
}

TEST(ChunkOnLanes, DecodesInt8AsTheCodecDoes) {
  for (const Floats& chunk : chunks()) {
    for (const std::size_t block : {1U, 16U, 128U, 4096U}) {
      const auto decode = [&](const Bytes& bytes, float weight, Floats& accumulator) {
        SerialGroup<kChunkLanes> group(weight > 0.5F);
        NoMemory memory;
        return decode_add_chunk(group, Int8Format{block}, bytes.data(), weight, accumulator.data(),
                                memory);
      };
      expect_decodes_alike("dense:int8,block=" + std::to_string(block), chunk, decode);
    }
  }
}

TEST(DeviceFormat, IsOfCodecsThatHaveDeviceCode) {
  const auto topk = device_format("topk:k=64"), int8 = device_format("dense:int8,block=64");
  ASSERT_TRUE(topk && int8);
  EXPECT_EQ(std::get<TopKFormat>(*topk).k(), 64);
  EXPECT_EQ(std::get<Int8Format>(*int8).block, 64);
  for (const char* spec : {"dense:fp32", "topk:k=64,value=fp32", "topk:k=64,index=rice",
                           "dense:int8,rounding=stochastic"}) {
    EXPECT_FALSE(device_format(spec)) << spec;
  }
  for (const char* spec : {"topk:k=0", "dense:int7"})
    EXPECT_THROW(device_format(spec), std::system_error) << spec;
}

}  // namespace
}  // namespace causeway::compression::cuda
