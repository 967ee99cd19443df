#include <cassert>
#include <cmath>
#include <numeric>

#include "compression/base/chunk.h"
#include "compression/base/codec.h"
#include "compression/base/parallel.h"
#include "compression/codecs/make_codec.h"

namespace causeway::compression {
namespace {

class Dense final : public Codec {
 public:
  explicit Dense(std::unique_ptr<ValueFormat> value) : value_(std::move(value)) {}

  std::string spec() const override { return "dense:" + value_->spec(); }
  bool is_sparse() const override { return false; }
  std::optional<std::size_t> chunk_bytes() const override { return value_->bytes(kChunk); }
  std::size_t encoded_bytes_max(std::size_t count) const override {
    assert(count % kChunk == 0);
    return count / kChunk * value_->bytes(kChunk);
  }

  std::optional<EncodeStats> encode_feedback(const FeedbackChunk& chunk, std::byte* out,
                                             const EncodeKey& key) const override {
    return value_->encode_feedback(chunk, out, key);
  }

  void decode_add(std::span<const std::byte> bytes, float weight,
                  std::span<float> accumulator) const override {
    check_size(bytes, accumulator.size());
    const std::size_t bad = first_failure(accumulator.size() / kChunk, [&](std::size_t chunk) {
      return value_->decode_add(bytes.data() + chunk * value_->bytes(kChunk), weight,
                                accumulator.subspan(chunk * kChunk, kChunk));
    });
    if (bad != kNone) refuse_values(bad);
  }

  void add_weight(std::span<const std::byte> bytes, float weight,
                  std::span<float> weights) const override {
    check_size(bytes, weights.size());
    for (float& sum : weights) sum += weight;
  }

  double norm_squared_bound(std::span<const std::byte> bytes, std::size_t count) const override {
    check_size(bytes, count);
    std::vector<double> of_chunks(count / kChunk);
    const std::size_t bad = first_failure(of_chunks.size(), [&](std::size_t chunk) {
      of_chunks[chunk] =
          value_->norm_squared_bound(bytes.data() + chunk * value_->bytes(kChunk), kChunk);
      return std::isfinite(of_chunks[chunk]);
    });
    if (bad != kNone) refuse_values(bad);
    return std::accumulate(of_chunks.begin(), of_chunks.end(), 0.0);
  }

 private:
  [[noreturn]] void refuse_values(std::size_t chunk) const {
    fail(Errc::malformed, spec() + ": values of chunk " + std::to_string(chunk));
  }
  void check_size(std::span<const std::byte> bytes, std::size_t elements) const {
    const std::size_t needed = encoded_bytes_max(elements);
    if (bytes.size() == needed) return;
    fail(Errc::malformed, spec() + ": " + std::to_string(bytes.size()) + " bytes where " +
                              std::to_string(needed) + " are needed");
  }
  void append(std::span<const float> input, std::span<float> decoded, std::vector<std::byte>& out,
              const EncodeKey& key) const override {
    const std::size_t before = out.size();
    out.resize(before + encoded_bytes_max(input.size()));
    std::byte* to = out.data() + before;
    EncodeKey chunk_key = key;
    for (std::size_t begin = 0; begin < input.size(); begin += kChunk) {
      value_->encode(input.subspan(begin, kChunk), decoded.subspan(begin, kChunk), to, chunk_key);
      to += value_->bytes(kChunk);
      chunk_key.first_element += kChunk;
    }
  }

  std::unique_ptr<ValueFormat> value_;
};

}  // namespace

std::unique_ptr<Codec> make_dense(std::unique_ptr<ValueFormat> value) {
  return std::make_unique<Dense>(std::move(value));
}

}  // namespace causeway::compression
