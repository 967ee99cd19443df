// The chunk jobs' kernels against the CPU's codecs: same bytes, same residuals, same norms, same
// refusals. The logic of one chunk is tested without a GPU in cuda_chunk_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "compression/codecs/feedback.h"
#include "compression/codecs/make_codec.h"
#include "compression/cuda/device_format.h"
#include "compression/cuda/error.h"
#include "compression/cuda/kernels.h"
#include "tests/compression/base/chunks.h"

namespace causeway::compression::cuda {
namespace {

constexpr float kBeta = 0.95F;
constexpr const char* kSpecs[] = {"topk:k=1",   "topk:k=41",           "topk:k=64",
                                  "topk:k=500", "topk:k=4096",         "dense:int8,block=1",
                                  "dense:int8", "dense:int8,block=16", "dense:int8,block=4096"};

struct Free {
  void operator()(void* memory) const { cudaFree(memory); }
};

// Values in the GPU's memory.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : size_(values.size()) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, size_ * sizeof(T)), "allocating");
    memory_.reset(static_cast<T*>(memory));
    check(cudaMemcpy(memory, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), "copying");
  }
  std::vector<T> values() const {
    std::vector<T> values(size_);
    check(cudaMemcpy(values.data(), memory_.get(), size_ * sizeof(T), cudaMemcpyDeviceToHost),
          "copying");
    return values;
  }
  T* data() const { return memory_.get(); }

 private:
  std::unique_ptr<T, Free> memory_;
  std::size_t size_;
};

using Bytes = std::vector<std::uint8_t>;
using Flags = std::vector<std::uint32_t>;

Bytes bytes_of(const std::vector<std::byte>& bytes) {
  Bytes same;
  for (const std::byte byte : bytes) same.push_back(std::to_integer<std::uint8_t>(byte));
  return same;
}

// All chunks of chunks() in a row.
Floats all_chunks() {
  Floats all;
  for (const Floats& chunk : chunks()) all.insert(all.end(), chunk.begin(), chunk.end());
  return all;
}

struct Encoded {
  Bytes bytes;
  Floats rest;  // takes the residual's place
  std::vector<ChunkNorms> norms;
  Flags bad;
};

Encoded encode(const char* spec, const Floats& delta, const Floats& before) {
  return std::visit(
      [&]<typename Format>(const Format& format) {
        const std::size_t chunks = delta.size() / kChunk;
        const OnDevice<float> on_device(delta), residual(before);
        const OnDevice<std::uint8_t> bytes(Bytes(chunks * format.bytes()));
        const OnDevice<ChunkNorms> norms{std::vector<ChunkNorms>(chunks)};
        const OnDevice<std::uint32_t> bad{Flags(chunks)};
        launch(typename JobsOf<Format>::Encode{format,
                                               static_cast<std::int64_t>(chunks),
                                               {on_device.data(), residual.data(), residual.data(),
                                                kBeta},
                                               bytes.data(),
                                               norms.data(),
                                               bad.data()},
               nullptr);
        return Encoded{bytes.values(), residual.values(), norms.values(), bad.values()};
      },
      device_format(spec).value());
}

// Whether the bytes are accepted; adds them then.
bool decode(const char* spec, const Bytes& encoded, float weight, Floats& sum) {
  return std::visit(
      [&]<typename Format>(const Format& format) {
        const std::size_t chunks = sum.size() / kChunk;
        const OnDevice<std::uint8_t> bytes(encoded);
        const OnDevice<float> accumulator(sum);
        const OnDevice<std::uint32_t> bad{Flags(chunks)};
        launch(
            typename JobsOf<Format>::Decode{format, static_cast<std::int64_t>(chunks), bytes.data(),
                                            weight, accumulator.data(), bad.data()},
            nullptr);
        sum = accumulator.values();
        return std::ranges::count(bad.values(), 0U) == static_cast<std::ptrdiff_t>(chunks);
      },
      device_format(spec).value());
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
  std::vector<std::byte> expected;
  const EncodeStats total =
      encode_with_feedback(*make_codec(GetParam()), delta, kBeta, rest, expected);
  const Encoded found = encode(GetParam(), delta, before);
  EXPECT_EQ(found.bytes, bytes_of(expected));
  EXPECT_TRUE(same_bits(found.rest, rest));
  EXPECT_EQ(found.bad, Flags(found.bad.size()));
  EncodeStats sum;
  for (const ChunkNorms& chunk : found.norms) sum += {chunk.input, chunk.error};
  EXPECT_EQ(sum.input_norm_squared, total.input_norm_squared);
  EXPECT_EQ(sum.error_norm_squared, total.error_norm_squared);
}

TEST_P(OnGpu, LeavesTheResidualOfAChunkThatIsNotFinite) {
  Floats delta = all_chunks();
  delta[kChunk + 300] = std::nanf("");
  const Floats before = draw(gaussian_at, delta.size(), 7);
  const Encoded found = encode(GetParam(), delta, before);
  Flags expected(delta.size() / kChunk);
  expected[1] = 1;
  EXPECT_EQ(found.bad, expected);
  EXPECT_TRUE(std::equal(before.begin() + kChunk, before.begin() + 2 * kChunk,
                         found.rest.begin() + kChunk));
}

TEST_P(OnGpu, DecodesAndRefusesAsTheCpuDoes) {
  constexpr float kWeight = 0.3F;
  const auto codec = make_codec(GetParam());
  const Floats input = draw(student_at, 3 * kChunk), before = draw(gaussian_at, 3 * kChunk, 3);
  std::vector<std::byte> encoded;
  Floats decoded(input.size());
  codec->encode(input, decoded, encoded);
  for (std::uint64_t flip = 0; flip < 200; ++flip) {
    std::vector<std::byte> bytes = encoded;
    if (flip > 0) bytes[mix(flip) % bytes.size()] ^= std::byte{1} << flip % 8;
    Floats expected = before, found = before;
    bool accepted = true;
    try {
      codec->decode_add(bytes, kWeight, expected);
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), Errc::malformed);
      accepted = false;
    }
    ASSERT_EQ(decode(GetParam(), bytes_of(bytes), kWeight, found), accepted) << flip;
    ASSERT_TRUE(!accepted || same_bits(found, expected)) << flip;
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, OnGpu, testing::ValuesIn(kSpecs),
                         [](const auto& spec) { return "spec" + std::to_string(spec.index); });

// Needs no GPU.
TEST(CudaError, SaysWhatFailedWhereAndWhatToDo) {
  EXPECT_NO_THROW(check(cudaSuccess, "nothing"));
  try {
    check(cudaErrorMemoryAllocation, "allocating a buffer");
    FAIL() << "accepted";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().category(), cuda_category());
    const std::string text = error.what();
    for (const char* part : {"allocating a buffer", "chunk_jobs_test.cc:", "nvidia-smi"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace causeway::compression::cuda
