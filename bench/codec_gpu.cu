// The GPU codecs' kernels beside the rate of a device-to-device copy in the same run, timed with
// CUDA events: bytes that must move (as performance targets count them) over time.
//
//   bench_codec_gpu [ELEMENTS]      124518400: GPT-2 124M in whole chunks
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compression/cuda/error.h"
#include "compression/cuda/kernels.h"

namespace {

using namespace causeway::compression;
using namespace causeway::compression::cuda;

struct Free {
  void operator()(void* memory) const { cudaFree(memory); }
};

template <typename T>
std::unique_ptr<T, Free> device_array(std::size_t count) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, count * sizeof(T)), "allocating");
  return std::unique_ptr<T, Free>(static_cast<T*>(memory));
}

// Bell-shaped enough for a selection: sums of four uniform numbers out of a counter's hash.
__global__ void fill(float* values, std::size_t count, std::uint32_t seed) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  std::uint64_t x = (i + 1) * 0x9E3779B97F4A7C15 + seed;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  const auto part = [&](int n) { return static_cast<float>(x >> 16 * n & 0xFFFF) * 0x1p-16F; };
  values[i] = 1e-4F * (part(0) + part(1) + part(2) + part(3) - 2.0F);
}

class Timer {
 public:
  Timer() {
    check(cudaEventCreate(&begin_), "making an event");
    check(cudaEventCreate(&end_), "making an event");
  }
  ~Timer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  // The median of 20 runs in milliseconds, after three that do not count.
  float median_ms(const std::function<void()>& run) const {
    std::vector<float> times;
    for (int i = 0; i < 23; ++i) {
      check(cudaEventRecord(begin_), "timing");
      run();
      check(cudaEventRecord(end_), "timing");
      check(cudaEventSynchronize(end_), "timing");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, begin_, end_), "timing");
      if (i >= 3) times.push_back(ms);
    }
    std::nth_element(times.begin(), times.begin() + 10, times.end());
    return times[10];
  }

 private:
  cudaEvent_t begin_{}, end_{};
};

class Bench {
 public:
  explicit Bench(std::size_t count)
      : count_(count),
        delta_(device_array<float>(count)),
        residual_(device_array<float>(count)),
        next_(device_array<float>(count)),
        bytes_(device_array<std::uint8_t>(2 * count)),
        norms_(device_array<ChunkNorms>(count / kChunk)),
        bad_(device_array<std::uint32_t>(count / kChunk)) {
    const auto blocks = static_cast<unsigned>((count + 255) / 256);
    fill<<<blocks, 256>>>(delta_.get(), count, 1);
    fill<<<blocks, 256>>>(residual_.get(), count, 2);
    check(cudaGetLastError(), "filling the arrays");
    copy_rate_ = rate(8, timer_.median_ms([&] {
      check(cudaMemcpyAsync(next_.get(), delta_.get(), count_ * sizeof(float),
                            cudaMemcpyDeviceToDevice),
            "copying");
    }));
    std::printf("%zu elements, copy %.0f GB/s (read and write)\n", count, copy_rate_);
  }

  template <typename Format>
  void run(const std::string& name, const Format& format, double encoded_bytes_per_element,
           double share_decoded) const {
    const auto chunks = static_cast<std::int64_t>(count_ / kChunk);
    const typename JobsOf<Format>::Encode encode{
        format,       chunks,       {delta_.get(), residual_.get(), next_.get(), 0.95F},
        bytes_.get(), norms_.get(), bad_.get()};
    const typename JobsOf<Format>::Decode decode{format, chunks,      bytes_.get(),
                                                 0.25F,  next_.get(), bad_.get()};
    row(name, "encode with feedback", 12 + encoded_bytes_per_element,
        timer_.median_ms([&] { launch(encode, nullptr); }));
    row(name, "decode and add", 8 * share_decoded + encoded_bytes_per_element,
        timer_.median_ms([&] { launch(decode, nullptr); }));
  }

 private:
  double rate(double bytes_per_element, float ms) const {
    return bytes_per_element * static_cast<double>(count_) / ms * 1e-6;
  }
  void row(const std::string& name, const char* what, double bytes_per_element, float ms) const {
    const double own = rate(bytes_per_element, ms);
    std::printf("%-12s %-22s %8.3f ms %8.0f GB/s %6.2f of the copy\n", name.c_str(), what, ms, own,
                own / copy_rate_);
  }

  std::size_t count_;
  std::unique_ptr<float, Free> delta_, residual_, next_;
  std::unique_ptr<std::uint8_t, Free> bytes_;
  std::unique_ptr<ChunkNorms, Free> norms_;
  std::unique_ptr<std::uint32_t, Free> bad_;
  Timer timer_;
  double copy_rate_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("not run: no GPU\n");
    return 0;
  }
  const std::size_t wanted = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 124518400;
  const Bench bench(std::max<std::size_t>(wanted / kChunk, 1) * kChunk);
  bench.run("int8", Int8Format{128}, 1 + 2.0 / 128, 1);
  for (const std::size_t k : {64U, 128U, 512U}) {
    const TopKFormat format{{k}};
    bench.run("topk " + std::to_string(k), format, static_cast<double>(format.bytes()) / kChunk,
              static_cast<double>(k) / kChunk);
  }
}
