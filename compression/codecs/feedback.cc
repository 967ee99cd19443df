#include "compression/codecs/feedback.h"

#include <array>
#include <cassert>
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

// One pass over memory: each chunk is encoded while it is in the cache.
class ChunkwiseEncoding {
 public:
  ChunkwiseEncoding(const Encoding& segment, std::byte* out)
      : segment_(segment), out_(out), stats_(segment.delta.size() / kChunk) {}

  // The first chunk that is not finite, or kNone.
  std::size_t run() {
    return first_failure(stats_.size(), [&](std::size_t chunk) { return encode(chunk); });
  }

  // In the order of the chunks, whatever the number of threads.
  EncodeStats total() const {
    EncodeStats total;
    for (const EncodeStats& stats : stats_) total += stats;
    return total;
  }

 private:
  bool encode(std::size_t chunk) {
    if (!segment_.residual.empty())
      return encode(chunk, segment_.residual.subspan(chunk * kChunk).first<kChunk>());
    alignas(64) std::array<float, kChunk> nobody_keeps_it{};
    return encode(chunk, nobody_keeps_it);
  }

  bool encode(std::size_t chunk, ChunkSpan residual) {
    EncodeKey key = segment_.key;
    key.first_element += chunk * kChunk;
    const FeedbackChunk work{segment_.delta.subspan(chunk * kChunk).first<kChunk>(), segment_.beta,
                             residual};
    const auto stats =
        segment_.codec.encode_feedback(work, out_ + chunk * *segment_.codec.chunk_bytes(), key);
    stats_[chunk] = stats.value_or(EncodeStats{});
    return stats.has_value();
  }

  const Encoding& segment_;
  std::byte* out_;
  std::vector<EncodeStats> stats_;
};

constexpr std::size_t kCopiesOfWhole = 2;  // p, and what of it is encoded

EncodeStats encode_whole(const Encoding& segment, std::vector<std::byte>& out) {
  std::vector<float> p(segment.residual.begin(), segment.residual.end());
  p.resize(segment.delta.size());
  const std::size_t bad = first_failure(p.size() / kChunk, [&](std::size_t chunk) {
    const auto part = [&](auto span) {
      return span.subspan(chunk * kChunk).template first<kChunk>();
    };
    return add_decayed({part(segment.delta), segment.beta, part(std::span(p))}).has_value();
  });
  if (bad != kNone) fail_at(bad);
  std::vector<float> scratch(p.size());
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

std::size_t feedback_copies(const Codec& codec) {
  return codec.chunk_bytes() ? 0 : kCopiesOfWhole;
}

}  // namespace causeway::compression
