// The GPU codecs against the CPU's: same bytes, same residuals, same norms, same refusals. The
// logic of one chunk is tested without a GPU in cuda_chunk_test.cc.
#include "compression/cuda/device_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "compression/cuda/error.h"
#include "compression/feedback.h"
#include "tests/compression/chunks.h"

namespace causeway::compression::cuda {
namespace {

constexpr float kBeta = 0.95F;
constexpr const char* kSpecs[] = {"topk:k=1",   "topk:k=41",           "topk:k=64",
                                  "topk:k=500", "topk:k=4096",         "dense:int8,block=1",
                                  "dense:int8", "dense:int8,block=16", "dense:int8,block=4096"};

struct Free {
  void operator()(float* memory) const { cudaFree(memory); }
};

// Floats in the GPU's memory.
class DeviceFloats {
 public:
  explicit DeviceFloats(const Floats& values) : size_(values.size()) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, size_ * sizeof(float)), "allocating");
    memory_.reset(static_cast<float*>(memory));
    check(cudaMemcpy(memory, values.data(), size_ * sizeof(float), cudaMemcpyHostToDevice), "copy");
  }
  Floats values() const {
    Floats values(size_);
    check(cudaMemcpy(values.data(), memory_.get(), size_ * sizeof(float), cudaMemcpyDeviceToHost),
          "copy");
    return values;
  }
  std::span<float> span() const { return {memory_.get(), size_}; }

 private:
  std::unique_ptr<float, Free> memory_;
  std::size_t size_;
};

// All chunks of chunks() in a row.
Floats all_chunks() {
  Floats all;
  for (const Floats& chunk : chunks()) all.insert(all.end(), chunk.begin(), chunk.end());
  return all;
}

class OnGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
      GTEST_SKIP() << "not run: no GPU";
    }
  }
};

TEST_P(OnGpu, EncodesAsTheCpuDoes) {
  const Floats delta = all_chunks();
  const Floats before = draw(laplace_at, delta.size(), 77, 1e-3);
  Floats rest = before;
  std::vector<std::byte> expected{std::byte{9}};
  const EncodeStats total =
      encode_with_feedback(*make_codec(GetParam()), delta, kBeta, rest, expected);

  DeviceCodec codec(GetParam(), nullptr);
  const DeviceFloats on_device(delta);
  const DeviceFloats residual(before);
  std::vector<std::byte> bytes{std::byte{9}};
  const auto norms =
      codec.encode_with_feedback(on_device.span(), kBeta, residual.span(), on_device.span(), bytes);
  EXPECT_EQ(bytes, expected);
  EXPECT_TRUE(same_bits(on_device.values(), rest));
  EXPECT_TRUE(same_bits(residual.values(), before));
  EncodeStats sum;
  for (const EncodeStats& chunk : norms) {
    sum.input_norm_squared += chunk.input_norm_squared;
    sum.error_norm_squared += chunk.error_norm_squared;
  }
  EXPECT_EQ(sum.input_norm_squared, total.input_norm_squared);
  EXPECT_EQ(sum.error_norm_squared, total.error_norm_squared);
}

TEST_P(OnGpu, DecodesAsTheCpuDoes) {
  constexpr float kWeight = 0.3F;
  const Floats input = all_chunks();
  const auto codec = make_codec(GetParam());
  std::vector<std::byte> bytes;
  Floats decoded(input.size());
  codec->encode(input, decoded, bytes);
  Floats expected = draw(gaussian_at, input.size(), 3);
  const DeviceFloats accumulator(expected);
  codec->decode_add(bytes, kWeight, expected);
  DeviceCodec(GetParam(), nullptr).decode_add(bytes, kWeight, accumulator.span());
  EXPECT_TRUE(same_bits(accumulator.values(), expected));
}

TEST_P(OnGpu, LeavesTheResidualWhenNotFinite) {
  Floats delta = all_chunks();
  delta[kChunk + 300] = std::nanf("");
  const Floats before = draw(gaussian_at, delta.size(), 7);
  const DeviceFloats on_device(delta);
  const DeviceFloats residual(before);
  std::vector<std::byte> bytes{std::byte{9}};
  DeviceCodec codec(GetParam(), nullptr);
  try {
    codec.encode_with_feedback(on_device.span(), kBeta, residual.span(), on_device.span(), bytes);
    FAIL() << "accepted";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::not_finite);
  }
  EXPECT_TRUE(same_bits(residual.values(), before));
  EXPECT_EQ(bytes, std::vector{std::byte{9}});
}

TEST_P(OnGpu, RefusesWhatTheCpuRefuses) {
  const auto codec = make_codec(GetParam());
  DeviceCodec device(GetParam(), nullptr);
  const Floats input = draw(student_at, 3 * kChunk);
  std::vector<std::byte> encoded;
  Floats decoded(input.size());
  codec->encode(input, decoded, encoded);
  const DeviceFloats accumulator(Floats(input.size()));
  const auto accepts = [&](auto& any_codec, const std::vector<std::byte>& bytes,
                           std::span<float> sum) {
    try {
      any_codec.decode_add(bytes, 1.0F, sum);
      return true;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), Errc::malformed);
      return false;
    }
  };
  for (std::uint64_t flip = 0; flip < 200; ++flip) {
    std::vector<std::byte> bytes = encoded;
    bytes[mix(flip) % bytes.size()] ^= std::byte{1} << flip % 8;
    EXPECT_EQ(accepts(device, bytes, accumulator.span()), accepts(*codec, bytes, decoded)) << flip;
  }
  encoded.pop_back();
  EXPECT_FALSE(accepts(device, encoded, accumulator.span()));
}

INSTANTIATE_TEST_SUITE_P(Specs, OnGpu, testing::ValuesIn(kSpecs),
                         [](const auto& spec) { return "spec" + std::to_string(spec.index); });

// Needs no GPU.
TEST(DeviceCodecSpec, RefusesCodecsThatRunOnTheCpuAlone) {
  EXPECT_NO_THROW(DeviceCodec("dense:int8,block=64", nullptr));
  EXPECT_NO_THROW(DeviceCodec("topk:k=64", nullptr));
  for (const char* spec : {"dense:fp32", "topk:k=0", "dense:int7"}) {
    try {
      DeviceCodec codec(spec, nullptr);
      ADD_FAILURE() << spec;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), Errc::bad_spec) << spec;
    }
  }
}

TEST(CudaError, SaysWhatFailedWhereAndWhatToDo) {
  EXPECT_NO_THROW(check(cudaSuccess, "nothing"));
  try {
    check(cudaErrorMemoryAllocation, "allocating a buffer");
    FAIL() << "accepted";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().category(), cuda_category());
    const std::string text = error.what();
    for (const char* part : {"allocating a buffer", "device_codec_test.cc:", "nvidia-smi"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace causeway::compression::cuda
