// The codecs on the CPU, each beside its peers and limits in the same run. Models do not fit in
// caches, so neither do the arrays here: each case goes through them segment by segment, all cases
// in turn, and the fastest decile of its segments counts, so that what else the machine does
// disturbs it little, and all alike.
//
//   bench_codec [ELEMENTS [REPEATS]]      33554432 and 3; ELEMENTS is a multiple of 1048576
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "bench/codec_peers.h"
#include "compression/base/spec.h"
#include "compression/codecs/feedback.h"
#include "compression/codecs/make_codec.h"
#include "compression/index/index.h"
#include "compression/sparsifier/topk.h"

namespace {

using namespace causeway::compression;
using namespace causeway::bench;

constexpr std::size_t kSegment = std::size_t{1} << 20;
constexpr float kBeta = 0.95F;

// Logistic by inversion of a counter's hash: bell-shaped, with a tail like that of a
// pseudo-gradient.
std::vector<float> sample(std::size_t count) {
  std::vector<float> values(count);
  std::uint64_t state = 1;
  for (float& x : values) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const double u = (static_cast<double>(state >> 11) + 0.5) * 0x1p-53;
    x = static_cast<float>(1e-4 * std::log(u / (1 - u)));
  }
  return values;
}

// Named cases: what each does with one segment, and how long that takes.
class Cases {
 public:
  using Run = std::function<void(std::size_t segment)>;

  void add(const std::string& name, Run run) { cases_[name].run = std::move(run); }
  void run(std::size_t segments, int repeats) {
    for (int i = 0; i < repeats; ++i) {
      for (auto& [name, each] : cases_) {
        for (std::size_t segment = 0; segment < segments; ++segment) {
          const auto begin = std::chrono::steady_clock::now();
          each.run(segment);
          const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
          each.seconds.push_back(took.count());
        }
      }
    }
    for (auto& [name, each] : cases_) std::sort(each.seconds.begin(), each.seconds.end());
  }
  double seconds(const std::string& name) const {
    const std::vector<double>& sorted = cases_.at(name).seconds;
    return sorted[sorted.size() / 10];
  }

 private:
  struct Case {
    Run run;
    std::vector<double> seconds{};
  };
  std::map<std::string, Case> cases_;
};

struct Arrays {
  explicit Arrays(std::size_t count)
      : delta(sample(count)), residual(count), sum(count), codes(count), scales(kSegment / 128) {}
  std::vector<float> delta, residual, sum;
  std::vector<std::int8_t> codes;
  std::vector<float> scales;
};

struct Bench {
  Arrays arrays;
  Cases cases{};

  std::size_t segments() const { return arrays.delta.size() / kSegment; }
  // One segment of an array.
  template <typename T>
  static std::span<T> part(std::vector<T>& array, std::size_t segment) {
    const std::size_t count = array.size() / (array.size() / kSegment);
    return std::span(array).subspan(segment * count, count);
  }

  void add_limits();
  void add_codec(const std::string& spec);
  void add_selection(std::size_t k);
  // Returns the bits per index that the format takes.
  double add_indices(const std::string& format, std::size_t k);

  void row(const std::string& name, double bytes_per_element, const std::string& beside,
           double beside_bytes_per_element) const;
};

void Bench::add_limits() {
  cases.add("memcpy", [this](std::size_t i) {
    std::memcpy(part(arrays.sum, i).data(), part(arrays.delta, i).data(), kSegment * sizeof(float));
  });
  cases.add("read", [this](std::size_t i) {
    if (read_all(part(arrays.delta, i)) == 0) std::abort();
  });
  cases.add("scalar int8 feedback", [this](std::size_t i) {
    scalar_int8_feedback(part(arrays.delta, i), kBeta, part(arrays.residual, i),
                         part(arrays.codes, i), arrays.scales);
  });
}

// "encode SPEC on N", "decode SPEC on N" and "measure SPEC on N", N threads.
void Bench::add_codec(const std::string& spec) {
  const std::shared_ptr<const Codec> codec = make_codec(spec);
  const std::size_t encoded = codec->encoded_bytes_max(kSegment);
  const auto bytes = std::make_shared<std::vector<std::byte>>(segments() * encoded);
  for (std::size_t i = 0; i < segments(); ++i) {
    std::vector<float> rest(kSegment);
    encode_with_feedback(*codec, part(arrays.delta, i), kBeta, rest,
                         std::span(*bytes).subspan(i * encoded, encoded));
  }
  for (const int threads : {1, 2}) {
    const std::string name = spec + " on " + std::to_string(threads);
    cases.add("encode " + name, [=, this](std::size_t i) {
      omp_set_num_threads(threads);
      encode_with_feedback(*codec, part(arrays.delta, i), kBeta, part(arrays.residual, i),
                           std::span(*bytes).subspan(i * encoded, encoded));
    });
    cases.add("decode " + name, [=, this](std::size_t i) {
      omp_set_num_threads(threads);
      codec->decode_add(std::span(*bytes).subspan(i * encoded, encoded), 0.25F,
                        part(arrays.sum, i));
    });
    cases.add("measure " + name, [=](std::size_t i) {
      omp_set_num_threads(threads);
      const auto measured = std::span(*bytes).subspan(i * encoded, encoded);
      if (codec->norm_squared_bound(measured, kSegment) == 0) std::abort();
    });
  }
}

// Of each chunk; the peer only finds the k-th largest, and neither collects nor orders.
void Bench::add_selection(std::size_t k) {
  const std::string of = std::to_string(k);
  cases.add("select " + of, [=, this](std::size_t segment) {
    std::vector<std::uint16_t> indices(k);
    const auto values = part(arrays.delta, segment);
    for (std::size_t at = 0; at < kSegment; at += kChunk) {
      select_topk(ChunkView(values.subspan(at, kChunk)), indices);
    }
  });
  cases.add("nth_element " + of, [=, this](std::size_t segment) {
    std::uint32_t any = 0;
    const auto values = part(arrays.delta, segment);
    for (std::size_t at = 0; at < kSegment; at += kChunk) {
      any |= kth_magnitude(values.subspan(at, kChunk), k);
    }
    if (any == 0) std::abort();
  });
}

// The positions of the k largest of each chunk of one segment, encoded and decoded.
double Bench::add_indices(const std::string& format, std::size_t k) {
  Spec spec("any:index=" + format);
  const std::shared_ptr<const IndexFormat> index = make_index(spec, "");
  const std::size_t slot = index->bytes_max(k);
  const auto positions = std::make_shared<std::vector<std::uint16_t>>(kSegment / kChunk * k);
  const auto bytes = std::make_shared<std::vector<std::byte>>(kSegment / kChunk * slot);
  const auto sizes = std::make_shared<std::vector<std::size_t>>(kSegment / kChunk);
  const auto encode = [=] {
    std::fill(bytes->begin(), bytes->end(), std::byte{0});
    for (std::size_t i = 0; i < sizes->size(); ++i) {
      (*sizes)[i] =
          index->encode(std::span(*positions).subspan(i * k, k), bytes->data() + i * slot);
    }
  };
  for (std::size_t i = 0; i < sizes->size(); ++i) {
    select_topk(ChunkView(arrays.delta.data() + i * kChunk, kChunk),
                std::span(*positions).subspan(i * k, k));
  }
  encode();
  cases.add(format + " encode", [=](std::size_t) { encode(); });
  cases.add(format + " decode", [=](std::size_t) {
    for (std::size_t i = 0; i < sizes->size(); ++i) {
      if (!index->decode(std::span(*bytes).subspan(i * slot, (*sizes)[i]),
                         std::span(*positions).subspan(i * k, k))) {
        std::abort();
      }
    }
  });
  const double total = std::accumulate(sizes->begin(), sizes->end(), 0.0);
  return 8 * total / static_cast<double>(positions->size());
}

// The rates of both, and the ratio of the rates.
void Bench::row(const std::string& name, double bytes_per_element, const std::string& beside,
                double beside_bytes_per_element) const {
  const auto rate = [&](const std::string& of, double bytes) {
    return bytes * static_cast<double>(kSegment) / cases.seconds(of) * 1e-9;
  };
  const double own = rate(name, bytes_per_element);
  const double other = rate(beside, beside_bytes_per_element);
  std::printf("%-58s %7.2f GB/s | %7.2f %-28s | %6.2f\n", name.c_str(), own, other, beside.c_str(),
              own / other);
}

void report(const Bench& bench) {
  // Bytes per element: memcpy reads and writes 4; int8 with feedback reads delta and residual and
  // writes residual and a code; decoding reads and writes the sum and reads a code.
  const std::string int8 = "dense:int8,block=128 on ";
  const std::string topk = "topk:k=64 on ";
  std::printf("%-58s %12s | %7s %-28s | %6s\n", "", "", "", "beside", "ratio");
  bench.row("encode " + int8 + "1", 13, "memcpy", 8);
  bench.row("encode " + int8 + "1", 13, "scalar int8 feedback", 13);
  bench.row("decode " + int8 + "1", 9, "memcpy", 8);
  bench.row("encode " + int8 + "2", 13, "encode " + int8 + "1", 13);
  bench.row("decode " + int8 + "2", 9, "decode " + int8 + "1", 9);
  for (const std::string k : {"41", "64", "128", "512"}) {
    bench.row("select " + k, 4, "read", 4);
    bench.row("select " + k, 4, "nth_element " + k, 4);
  }
  bench.row("encode " + topk + "1", 12, "memcpy", 8);
  bench.row("encode " + topk + "2", 12, "encode " + topk + "1", 12);
  bench.row("decode " + topk + "1", 4, "read", 4);
  bench.row("decode " + topk + "2", 4, "decode " + topk + "1", 4);
  bench.row("measure " + int8 + "1", 9, "decode " + int8 + "1", 9);
  bench.row("measure " + topk + "1", 4, "decode " + topk + "1", 4);
}

// Against the entropy of a position in a chunk of which a share k / 4096 is taken.
void report_indices(const Bench& bench, const std::string& format, std::size_t k, double bits) {
  const double p = static_cast<double>(k) / kChunk;
  const double entropy = -std::log2(p) - (1 - p) / p * std::log2(1 - p);
  const double raw_bytes = static_cast<double>(kSegment / kChunk * k) * sizeof(std::uint32_t);
  std::printf("%s, k=%zu: %.3f bits per index, %.3f of the entropy; ", format.c_str(), k, bits,
              bits / entropy);
  std::printf("raw indices encoded at %.2f GB/s, decoded at %.2f GB/s\n",
              raw_bytes / bench.cases.seconds(format + " encode") * 1e-9,
              raw_bytes / bench.cases.seconds(format + " decode") * 1e-9);
}

std::size_t number(int argc, char** argv, int at, std::size_t otherwise) {
  return argc > at ? std::strtoull(argv[at], nullptr, 10) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t count = number(argc, argv, 1, std::size_t{1} << 25);
  if (count == 0 || count % kSegment != 0) {
    std::fprintf(stderr, "ELEMENTS must be a positive multiple of %zu\n", kSegment);
    return 2;
  }
  Bench bench{Arrays(count)};
  bench.add_limits();
  bench.add_codec("dense:int8,block=128");
  bench.add_codec("topk:k=64");
  for (const std::size_t k : {41U, 64U, 128U, 512U}) bench.add_selection(k);
  const double rice_bits = bench.add_indices("rice", 41);
  const double elias_fano_bits = bench.add_indices("elias-fano", 64);
  bench.cases.run(bench.segments(), static_cast<int>(number(argc, argv, 2, 3)));
  std::printf("%zu elements in segments of %zu\n", count, kSegment);
  report(bench);
  report_indices(bench, "rice", 41, rice_bits);
  report_indices(bench, "elias-fano", 64, elias_fano_bits);
}
