// Encode with feedback and decode + accumulate, on one core, over 2^20 parameters (one full
// segment), beside memcpy. bytes_per_second counts fp32 input parameters (4 bytes each), so that
// all rows compare with the memcpy of the same parameters.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "compression/feedback.h"

namespace {

using namespace causeway::compression;

constexpr std::size_t kCount = std::size_t{1} << 20;

// Logistic by inversion of a counter's hash: bell-shaped, with a tail like that of a
// pseudo-gradient.
std::vector<float> sample() {
  std::vector<float> values(kCount);
  std::uint64_t state = 1;
  for (float& x : values) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const double u = (static_cast<double>(state >> 11) + 0.5) * 0x1p-53;
    x = static_cast<float>(1e-4 * std::log(u / (1 - u)));
  }
  return values;
}

void set_rate(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kCount * sizeof(float)));
}

void copy(benchmark::State& state) {
  const std::vector<float> from = sample();
  std::vector<float> to(kCount);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), kCount * sizeof(float));
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  set_rate(state);
}

void encode(benchmark::State& state, const char* spec) {
  const auto codec = make_codec(spec);
  const std::vector<float> delta = sample();
  std::vector<float> residual(kCount);
  std::vector<std::byte> bytes;
  for (auto _ : state) {
    bytes.clear();
    benchmark::DoNotOptimize(encode_with_feedback(*codec, delta, 0.95F, residual, bytes));
  }
  set_rate(state);
  state.counters["bits_per_parameter"] =
      8.0 * static_cast<double>(bytes.size()) / static_cast<double>(kCount);
}

void decode(benchmark::State& state, const char* spec) {
  const auto codec = make_codec(spec);
  std::vector<float> sum(kCount);
  std::vector<std::byte> bytes;
  codec->encode(sample(), sum, bytes);
  for (auto _ : state) {
    codec->decode_add(bytes, 0.25F, sum);
    benchmark::ClobberMemory();
  }
  set_rate(state);
}

BENCHMARK(copy);
BENCHMARK_CAPTURE(encode, int8, "dense:int8,block=128");
BENCHMARK_CAPTURE(encode, topk_64, "topk:k=64");
BENCHMARK_CAPTURE(encode, topk_128, "topk:k=128");
BENCHMARK_CAPTURE(decode, int8, "dense:int8,block=128");
BENCHMARK_CAPTURE(decode, topk_64, "topk:k=64");

}  // namespace

BENCHMARK_MAIN();
