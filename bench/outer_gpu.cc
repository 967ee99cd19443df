// An outer round of GPT-2 124M on a GPU: what each part takes beside the bytes that a round must
// move, at the rate of a device-to-device copy in the same run. Times are from the stream's events,
// so that the copies to the host and the waits for them count.
//
//   bench_outer_gpu [--offload] [CODEC]...      dense:int8,block=128 and topk:k=64
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "intra/cuda/device/cuda_backend.h"
#include "intra/cuda/step/device_spans.h"
#include "intra/model/model.h"
#include "intra/outer/outer_round.h"

namespace causeway::bench {
namespace {

using intra::Flat;
using intra::cuda::CudaBackend;
using intra::cuda::Event;
using intra::cuda::Mirror;

constexpr int kRepeats = 9, kRegions = 2;

std::vector<diloco::TensorSpec> gpt2_124m() {
  return intra::parameter_tensors({.vocabulary = 50'257,
                                   .context = 1024,
                                   .layers = 12,
                                   .width = 768,
                                   .heads = 12,
                                   .kv_heads = 12,
                                   .hidden = 3072});
}

class Bench {
 public:
  explicit Bench(bool offload)
      : layout_(gpt2_124m()),
        state_(layout_),
        params_(backend_, layout_.size()),
        scratch_(backend_, layout_.size()),
        spans_(layout_, backend_, backend_, params_, scratch_.device(), offload) {
    const auto number = [](std::size_t i, std::uint64_t seed) {
      const std::uint64_t x = (i + seed) * 0x9E3779B97F4A7C15ULL;
      return static_cast<float>(static_cast<std::int32_t>((x ^ x >> 29) >> 16)) * 0x1p-40F;
    };
    for (std::size_t i = 0; i < layout_.size(); ++i) {
      state_.anchor[i] = number(i, 1);
      state_.params[i] = state_.anchor[i] + 0x1p-6F * number(i, 2);
    }
    spans_.join(state_, nullptr);
    const auto bytes = static_cast<double>(layout_.size() * sizeof(float));
    copy_rate_ = 2 * bytes / median_ms([&] { spans_.copy(Flat::params, Flat::scratch); });
    std::printf("%s, %zu elements%s, copy %.0f GB/s (read and write)\n", backend_.device().c_str(),
                layout_.size(), offload ? ", offloaded" : "", 1e-6 * copy_rate_);
  }

  void run(const std::string& spec) {
    intra::CodecOptions options;
    options.matrix = options.vector = spec;
    const intra::CodecPolicy policy(options, layout_);
    const intra::Segments all = spans_.everything();
    std::vector<std::byte> encoding;
    std::vector<intra::CodecPolicy::Encoded> encoded;
    const double delta = median_ms([&] { spans_.take_delta(Flat::anchor, policy.decay(), all); });
    const double encode = median_ms([&] {
      encoding.clear();
      encoded = spans_.encode(policy, {}, all, encoding);
    });
    const std::vector<std::byte> payload = assemble(policy, encoded, encoding);
    const intra::Decoder decoder(payload, layout_, all);
    const double decode = median_ms([&] {
      spans_.clear(Flat::scratch, all);
      for (int region = 0; region < kRegions; ++region)
        spans_.add(decoder, 1.0F / kRegions, Flat::scratch, all);
    });
    const double step = median_ms([&] {
      spans_.outer_step({}, 0, all);
      spans_.copy(Flat::anchor, Flat::params);
    });
    const double hash = median_ms([&] {
      spans_.leaves(Flat::anchor, all);
      spans_.leaves(Flat::momentum, all);
    });
    std::printf("%s, %zu bytes\n", spec.c_str(), payload.size());
    const auto count = static_cast<double>(layout_.size()),
               wire = static_cast<double>(payload.size());
    row("delta, encode", delta + encode, 16 * count + wire);
    row("decode, add", decode, kRegions * wire);
    row("step, params", step, 20 * count);
    row("hash", hash, 0);
    row("round", delta + encode + decode + step + hash, 36 * count + (1 + kRegions) * wire);
  }

 private:
  double median_ms(const std::function<void()>& work) {
    std::vector<double> times;
    for (int i = 0; i < kRepeats + 2; ++i) {
      const Event begin(true), end(true);
      backend_.stream().record(begin);
      work();
      backend_.stream().record(end);
      end.synchronize();
      if (i >= 2) times.push_back(end.milliseconds_since(begin));
    }
    std::ranges::nth_element(times, times.begin() + kRepeats / 2);
    return times[kRepeats / 2];
  }

  std::vector<std::byte> assemble(const intra::CodecPolicy& policy,
                                  const std::vector<intra::CodecPolicy::Encoded>& encoded,
                                  std::span<const std::byte> bytes) const {
    std::vector<compression::EncodedSegment> segments;
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      segments.push_back({static_cast<std::uint32_t>(i),
                          static_cast<std::uint32_t>(layout_.segments()[i].count), encoded[i].codec,
                          bytes.first(encoded[i].bytes)});
      bytes = bytes.subspan(encoded[i].bytes);
    }
    return compression::write_payload(policy.specs(), segments);
  }

  // `bytes`: that must be moved, each span once.
  void row(const char* what, double ms, double bytes) const {
    std::printf("  %-14s %9.3f ms   at the copy's rate %7.3f ms\n", what, ms, bytes / copy_rate_);
  }

  CudaBackend backend_;
  diloco::Layout layout_;
  intra::OuterState state_;
  Mirror params_, scratch_;
  intra::cuda::DeviceSpans spans_;
  double copy_rate_ = 0;  // bytes per millisecond
};

}  // namespace
}  // namespace causeway::bench

int main(int argc, char** argv) {
  std::vector<std::string> codecs(argv + 1, argv + argc);
  const bool offload = std::erase(codecs, "--offload") > 0;
  if (codecs.empty()) codecs = {"dense:int8,block=128", "topk:k=64"};
  try {
    causeway::bench::Bench bench(offload);
    for (const std::string& codec : codecs) bench.run(codec);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_outer_gpu: %s\n", error.what());
    return 1;
  }
}
