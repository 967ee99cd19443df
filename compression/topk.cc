// topk: the k largest magnitudes of each chunk: Elias-Fano indices, two-bit values, two centroids.
#include <algorithm>
#include <array>

#include "compression/bytes.h"
#include "compression/chunk_codec.h"
#include "compression/elias_fano.h"
#include "compression/fail.h"
#include "compression/select.h"
#include "compression/two_bit.h"

namespace causeway::compression {
namespace {

class TopK final : public ChunkCodec {
 public:
  explicit TopK(std::size_t k) : index_{k} {}
  std::string spec() const override {
    return "topk:k=" + std::to_string(index_.k) + ",chunk=" + std::to_string(kChunk) +
           ",value=2bit,index=elias-fano";
  }
  bool is_sparse() const override { return true; }

 private:
  std::size_t value_bytes() const { return bytes_for_bits(2 * index_.k); }
  std::size_t chunk_bytes() const override {
    return index_.bytes() + value_bytes() + 2 * sizeof(std::uint16_t);
  }

  void encode_chunk(ChunkView input, ChunkSpan decoded, std::byte* out) const override {
    std::array<std::uint16_t, kChunk> index_buffer;
    std::array<float, kChunk> value_buffer;
    const auto indices = std::span(index_buffer).first(index_.k);
    const auto values = std::span(value_buffer).first(index_.k);
    select_largest(input, indices);
    for (std::size_t i = 0; i < index_.k; ++i) values[i] = input[indices[i]];
    index_.encode(indices, out);
    std::byte* codes = out + index_.bytes();
    const Centroids centroids = two_bit_encode(values, values, codes);
    store(codes + value_bytes(), centroids.low);
    store(codes + value_bytes() + sizeof centroids.low, centroids.high);
    std::fill(decoded.begin(), decoded.end(), 0.0F);
    for (std::size_t i = 0; i < index_.k; ++i) decoded[indices[i]] = values[i];
  }

  void decode_add_chunk(const std::byte* bytes, float weight,
                        ChunkSpan accumulator) const override {
    std::array<std::uint16_t, kChunk> index_buffer;
    std::array<float, kChunk> value_buffer;
    const auto indices = std::span(index_buffer).first(index_.k);
    const auto values = std::span(value_buffer).first(index_.k);
    if (!index_.decode(bytes, indices)) fail(Errc::malformed, "topk: indices");
    const std::byte* codes = bytes + index_.bytes();
    Centroids centroids;
    centroids.low = load<std::uint16_t>(codes + value_bytes());
    centroids.high = load<std::uint16_t>(codes + value_bytes() + sizeof centroids.low);
    if (!two_bit_decode(centroids, codes, values)) fail(Errc::malformed, "topk: values");
    for (std::size_t i = 0; i < index_.k; ++i) accumulator[indices[i]] += weight * values[i];
  }

  EliasFano index_;
};

}  // namespace

std::unique_ptr<Codec> make_topk(std::size_t k) {
  return std::make_unique<TopK>(k);
}

}  // namespace causeway::compression
