#include "compression/cuda/device_codec.h"

#include <cassert>
#include <charconv>
#include <string>
#include <utility>
#include <variant>

#include "compression/cuda/error.h"
#include "compression/cuda/kernels.h"
#include "compression/fail.h"

namespace causeway::compression::cuda {
namespace {

using Format = std::variant<TopKFormat, Int8Format>;

struct FreeDevice {
  void operator()(void* memory) const { cudaFree(memory); }
};

// Device memory that grows and is never copied to grow.
template <typename T>
class Buffer {
 public:
  T* at_least(std::size_t count) {
    if (count <= count_) return memory_.get();
    memory_.reset();
    count_ = 0;
    void* memory = nullptr;
    check(cudaMalloc(&memory, count * sizeof(T)), "allocating a buffer of the GPU codec");
    memory_.reset(static_cast<T*>(memory));
    count_ = count;
    return memory_.get();
  }

 private:
  std::unique_ptr<T, FreeDevice> memory_;
  std::size_t count_ = 0;
};

// The number between `before` and `after`, if that is what the text is.
std::size_t number_within(std::string_view text, std::string_view before, std::string_view after) {
  std::size_t number = 0;
  if (!text.starts_with(before) || !text.ends_with(after)) return 0;
  text.remove_prefix(before.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  return error == std::errc() && rest == after ? number : 0;
}

Format format_of(std::string_view spec) {
  const std::string full = make_codec(spec)->spec();
  if (const auto k = number_within(full, "topk:k=", ",chunk=4096,value=2bit,index=elias-fano")) {
    return TopKFormat{{k}};
  }
  if (const auto block = number_within(full, "dense:int8,block=", "")) return Int8Format{block};
  fail(Errc::bad_spec, "codec \"" + full +
                           "\" does not run on a GPU; those that do: "
                           "topk:k=...,value=2bit,index=elias-fano and dense:int8,block=...");
}

}  // namespace

class DeviceCodec::Implementation {
 public:
  Implementation(std::string_view spec, cudaStream_t stream)
      : format_(format_of(spec)), stream_(stream) {}

  std::size_t chunk_bytes() const {
    return std::visit([](const auto& format) { return format.bytes(); }, format_);
  }

  // Launches, waits, and returns the first bad chunk.
  template <typename Job>
  std::uint32_t run(Job job) {
    job.first_bad = first_bad_.at_least(1);
    check(cudaMemsetAsync(job.first_bad, 0xFF, sizeof *job.first_bad, stream_), "a GPU codec");
    std::visit([&](const auto& format) { launch(format, job, stream_); }, format_);
    std::uint32_t first_bad = kNoneBad;
    copy(&first_bad, job.first_bad, 1, cudaMemcpyDeviceToHost);
    return first_bad;
  }

  template <typename T>
  void copy(T* to, const T* from, std::size_t count, cudaMemcpyKind kind) const {
    check(cudaMemcpyAsync(to, from, count * sizeof(T), kind, stream_),
          "copying to or from the GPU");
    check(cudaStreamSynchronize(stream_), "waiting for the GPU");
  }

  std::uint8_t* bytes(std::size_t count) { return bytes_.at_least(count); }
  ChunkNorms* norms(std::size_t count) { return norms_.at_least(count); }

 private:
  Format format_;
  cudaStream_t stream_;
  Buffer<std::uint8_t> bytes_;
  Buffer<ChunkNorms> norms_;
  Buffer<std::uint32_t> first_bad_;
};

DeviceCodec::DeviceCodec(std::string_view spec, cudaStream_t stream)
    : implementation_(std::make_unique<Implementation>(spec, stream)) {}
DeviceCodec::~DeviceCodec() = default;

std::size_t DeviceCodec::encoded_bytes(std::size_t count) const {
  assert(count % kChunk == 0);
  return count / kChunk * implementation_->chunk_bytes();
}

std::vector<EncodeStats> DeviceCodec::encode_with_feedback(std::span<const float> delta, float beta,
                                                           std::span<const float> residual,
                                                           std::span<float> next,
                                                           std::vector<std::byte>& out) {
  assert(delta.size() == residual.size() && delta.size() == next.size());
  const std::size_t encoded = encoded_bytes(delta.size());
  EncodeJob job{.chunks = delta.size() / kChunk,
                .first = {delta.data(), residual.data(), next.data(), beta}};
  if (job.chunks == 0) return {};
  job.bytes = implementation_->bytes(encoded);
  job.norms = implementation_->norms(job.chunks);
  const std::uint32_t bad = implementation_->run(job);
  if (bad != kNoneBad) {
    fail(Errc::not_finite, "elements from " + std::to_string(bad * kChunk) + " on");
  }
  std::vector<ChunkNorms> norms(job.chunks);
  implementation_->copy(norms.data(), job.norms, job.chunks, cudaMemcpyDeviceToHost);
  const std::size_t before = out.size();
  out.resize(before + encoded);
  implementation_->copy(reinterpret_cast<std::uint8_t*>(out.data() + before), job.bytes, encoded,
                        cudaMemcpyDeviceToHost);
  std::vector<EncodeStats> stats;
  for (const ChunkNorms& chunk : norms) stats.push_back({chunk.input, chunk.error});
  return stats;
}

void DeviceCodec::decode_add(std::span<const std::byte> bytes, float weight,
                             std::span<float> accumulator) {
  const std::size_t needed = encoded_bytes(accumulator.size());
  if (bytes.size() != needed) {
    fail(Errc::malformed,
         std::to_string(bytes.size()) + " bytes where " + std::to_string(needed) + " are needed");
  }
  if (needed == 0) return;
  std::uint8_t* on_device = implementation_->bytes(needed);
  implementation_->copy(on_device, reinterpret_cast<const std::uint8_t*>(bytes.data()), needed,
                        cudaMemcpyHostToDevice);
  const std::uint32_t bad = implementation_->run(DecodeJob{.chunks = accumulator.size() / kChunk,
                                                           .bytes = on_device,
                                                           .weight = weight,
                                                           .accumulator = accumulator.data()});
  if (bad != kNoneBad) fail(Errc::malformed, "chunk " + std::to_string(bad));
}

}  // namespace causeway::compression::cuda
