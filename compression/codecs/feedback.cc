#include "compression/codecs/feedback.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <memory>
#include <string>
#include <vector>

#include "compression/base/chunk.h"
#include "compression/base/codec.h"
#include "compression/base/parallel.h"

namespace causeway::compression {
namespace {

// One segment on its way into `out`.
struct Encoding {
  const Codec& codec;
  std::span<const float> delta;
  float beta;
  std::span<float> residual;
  const EncodeKey& key;
};

[[noreturn]] void fail_at(std::size_t chunk) {
  fail(Errc::not_finite, "elements from " + std::to_string(chunk * kChunk) + " on");
}

// Of a chunk, where nobody keeps it.
struct NoResidual {
  alignas(64) std::array<float, kChunk> values{};
  alignas(64) std::array<float, kChunk> before;
};

// One pass over memory: each chunk is encoded while it is in the cache. The residual is overwritten
// chunk by chunk, so what it was is kept until all of p is known to be finite.
class ChunkwiseEncoding {
 public:
  ChunkwiseEncoding(const Encoding& segment, std::byte* out)
      : segment_(segment),
        out_(out),
        before_(std::make_unique_for_overwrite<float[]>(segment.residual.size())),
        stats_(segment.delta.size() / kChunk),
        begun_(stats_.size()) {}

  // The first chunk that is not finite, or kNone.
  std::size_t run() {
    return first_failure(stats_.size(), [&](std::size_t chunk) { return encode(chunk); });
  }

  // Puts the residual back.
  void undo() {
    if (segment_.residual.empty()) return;
    for (std::size_t chunk = 0; chunk < stats_.size(); ++chunk) {
      if (begun_[chunk] != 0) std::copy_n(before(chunk), kChunk, residual(chunk).begin());
    }
  }

  // In the order of the chunks, whatever the number of threads.
  EncodeStats total() const {
    EncodeStats total;
    for (const EncodeStats& stats : stats_) total += stats;
    return total;
  }

 private:
  float* before(std::size_t chunk) const { return before_.get() + chunk * kChunk; }
  ChunkSpan residual(std::size_t chunk) const {
    return segment_.residual.subspan(chunk * kChunk).first<kChunk>();
  }

  bool encode(std::size_t chunk) {
    if (!segment_.residual.empty())
      return encode(chunk, residual(chunk), ChunkSpan(before(chunk), kChunk));
    NoResidual none;
    return encode(chunk, none.values, none.before);
  }

  bool encode(std::size_t chunk, ChunkSpan residual, ChunkSpan before) {
    begun_[chunk] = true;
    EncodeKey key = segment_.key;
    key.first_element += chunk * kChunk;
    const FeedbackChunk work{segment_.delta.subspan(chunk * kChunk).first<kChunk>(), segment_.beta,
                             residual, before};
    const auto stats =
        segment_.codec.encode_feedback(work, out_ + chunk * *segment_.codec.chunk_bytes(), key);
    stats_[chunk] = stats.value_or(EncodeStats{});
    return stats.has_value();
  }

  const Encoding& segment_;
  std::byte* out_;
  std::unique_ptr<float[]> before_;
  std::vector<EncodeStats> stats_;
  std::vector<std::uint8_t> begun_;  // chunks whose residual is not what it was
};

EncodeStats encode_whole(const Encoding& segment, std::vector<std::byte>& out) {
  std::vector<float> p(segment.residual.begin(), segment.residual.end());
  p.resize(segment.delta.size());
  std::vector<float> scratch(p.size());
  const std::size_t bad = first_failure(p.size() / kChunk, [&](std::size_t chunk) {
    const auto part = [&](auto span) {
      return span.subspan(chunk * kChunk).template first<kChunk>();
    };
    return add_decayed(
               {part(segment.delta), segment.beta, part(std::span(p)), part(std::span(scratch))})
        .has_value();
  });
  if (bad != kNone) fail_at(bad);
  const EncodeStats stats = segment.codec.encode(p, scratch, out, segment.key);
  for (std::size_t i = 0; i < segment.residual.size(); ++i) segment.residual[i] = p[i] - scratch[i];
  return stats;
}

}  // namespace

EncodeStats encode_with_feedback(const Codec& codec, std::span<const float> delta, float beta,
                                 std::span<float> residual, std::span<std::byte> out,
                                 const EncodeKey& key) {
  assert(residual.empty() || delta.size() == residual.size());
  assert(delta.size() % kChunk == 0);
  assert(codec.chunk_bytes() && out.size() == codec.encoded_bytes_max(delta.size()));
  const Encoding segment{codec, delta, beta, residual, key};
  ChunkwiseEncoding encoding(segment, out.data());
  const std::size_t bad = encoding.run();
  if (bad == kNone) return encoding.total();
  encoding.undo();
  fail_at(bad);
}

EncodeStats encode_with_feedback(const Codec& codec, std::span<const float> delta, float beta,
                                 std::span<float> residual, std::vector<std::byte>& out,
                                 const EncodeKey& key) {
  assert(residual.empty() || delta.size() == residual.size());
  assert(delta.size() % kChunk == 0);
  if (!codec.chunk_bytes()) return encode_whole({codec, delta, beta, residual, key}, out);
  const std::size_t before = out.size();
  out.resize(before + codec.encoded_bytes_max(delta.size()));
  try {
    return encode_with_feedback(codec, delta, beta, residual, std::span(out).subspan(before), key);
  } catch (...) {
    out.resize(before);
    throw;
  }
}

}  // namespace causeway::compression
