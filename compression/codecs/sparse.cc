// An encoding: where counts vary, a table of them; where equally many positions may take different
// sizes, a table of the bytes beyond the fewest; then for each chunk that keeps anything its
// positions and its values. Without tables all chunks have the same size.
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <numeric>

#include "compression/base/chunk.h"
#include "compression/base/codec.h"
#include "compression/base/parallel.h"
#include "compression/codecs/make_codec.h"
#include "compression/codecs/packed_table.h"

namespace causeway::compression {
namespace {

struct Tables {
  std::optional<PackedTable> counts;
  std::optional<PackedTable> excess;  // bytes of the positions beyond bytes_min
};

// What one chunk's encoding is made of.
struct Extent {
  std::size_t begin = 0;
  std::size_t count = 0;
  std::size_t index_bytes = 0;
  std::size_t value_bytes = 0;
  std::size_t bytes() const { return index_bytes + value_bytes; }
};

class Sparse final : public Codec {
 public:
  Sparse(std::unique_ptr<Sparsifier> sparsifier, std::unique_ptr<ValueFormat> value,
         std::unique_ptr<IndexFormat> index)
      : sparsifier_(std::move(sparsifier)), value_(std::move(value)), index_(std::move(index)) {}

  std::string spec() const override {
    return sparsifier_->spec() + ",value=" + value_->spec() + ",index=" + index_->name();
  }
  bool is_sparse() const override { return true; }
  std::optional<std::size_t> chunk_bytes() const override;
  std::size_t encoded_bytes_max(std::size_t count) const override;
  std::optional<EncodeStats> encode_feedback(const FeedbackChunk& chunk, std::byte* out,
                                             const EncodeKey& key) const override {
    return encode_by_parts(chunk, [&](ChunkSpan p) {
      std::fill_n(out, *chunk_bytes(), std::byte{0});
      encode_rest(p, out, key);
    });
  }
  void decode_add(std::span<const std::byte> bytes, float weight,
                  std::span<float> accumulator) const override;
  void add_weight(std::span<const std::byte> bytes, float weight,
                  std::span<float> weights) const override;
  double norm_squared_bound(std::span<const std::byte> bytes, std::size_t count) const override;

 private:
  void append(std::span<const float> input, std::span<float> decoded, std::vector<std::byte>& out,
              const EncodeKey& key) const override;
  // Encodes one chunk, and leaves what is not encoded.
  void encode_rest(ChunkSpan values, std::byte* out, const EncodeKey& key) const;
  // Appends positions and the values at them; returns the bytes of the positions.
  std::size_t append_chunk(std::span<const float> chunk, std::span<const std::uint16_t> positions,
                           std::span<float> decoded, std::vector<std::byte>& out,
                           const EncodeKey& key) const;
  void insert_tables(std::span<const std::uint16_t> counts, std::span<const std::uint16_t> excess,
                     std::size_t at, std::vector<std::byte>& out) const;

  // Takes the tables off the beginning of `bytes`.
  Tables read_tables(std::span<const std::byte>& bytes, std::size_t chunks) const;
  Extent extent(const Tables& tables, std::size_t chunk) const;
  // visit(bytes, extent, chunk), which returns false if the bytes are malformed, for each of so
  // many chunks that holds something.
  template <typename Visit>
  void for_each_chunk(std::span<const std::byte> bytes, std::size_t chunks,
                      const Visit& visit) const;

  std::size_t excess_max(std::size_t count) const {
    return index_->bytes_max(count) - index_->bytes_min(count);
  }
  [[noreturn]] void refuse(const std::string& why) const {
    fail(Errc::malformed, spec() + ": " + why);
  }

  std::unique_ptr<Sparsifier> sparsifier_;
  std::unique_ptr<ValueFormat> value_;
  std::unique_ptr<IndexFormat> index_;
};

std::optional<std::size_t> Sparse::chunk_bytes() const {
  if (sparsifier_->count_varies() || index_->bytes_vary()) return {};
  return index_->bytes_min(sparsifier_->count_max()) + value_->bytes(sparsifier_->count_max());
}

std::size_t Sparse::encoded_bytes_max(std::size_t count) const {
  assert(count % kChunk == 0);
  const std::size_t chunks = count / kChunk;
  if (chunks == 0) return 0;
  const std::size_t count_max = sparsifier_->count_max();
  const std::size_t count_min = sparsifier_->count_varies() ? 1 : count_max;
  std::size_t index_bytes = 0;
  std::size_t excess = 0;
  for (std::size_t i = count_min; i <= count_max; ++i) {
    index_bytes = std::max(index_bytes, index_->bytes_max(i));
    excess = std::max(excess, excess_max(i));
  }
  std::size_t bytes = chunks * (index_bytes + value_->bytes(count_max));
  if (sparsifier_->count_varies()) bytes += PackedTable::bytes_max(chunks, count_max);
  if (index_->bytes_vary()) bytes += PackedTable::bytes_max(chunks, excess);
  return bytes;
}

void Sparse::append(std::span<const float> input, std::span<float> decoded,
                    std::vector<std::byte>& out, const EncodeKey& key) const {
  const std::size_t before = out.size();
  std::vector<std::uint16_t> counts;
  std::vector<std::uint16_t> excess;
  std::fill(decoded.begin(), decoded.end(), 0.0F);
  sparsifier_->select(input, [&](std::size_t chunk, std::span<const std::uint16_t> positions) {
    std::size_t beyond = 0;
    if (!positions.empty()) {
      EncodeKey chunk_key = key;
      chunk_key.first_element += chunk * kChunk;
      beyond = append_chunk(input.subspan(chunk * kChunk, kChunk), positions,
                            decoded.subspan(chunk * kChunk, kChunk), out, chunk_key) -
               index_->bytes_min(positions.size());
    }
    counts.push_back(static_cast<std::uint16_t>(positions.size()));
    excess.push_back(static_cast<std::uint16_t>(beyond));
  });
  insert_tables(counts, excess, before, out);
}

std::size_t Sparse::append_chunk(std::span<const float> chunk,
                                 std::span<const std::uint16_t> positions, std::span<float> decoded,
                                 std::vector<std::byte>& out, const EncodeKey& key) const {
  const std::size_t count = positions.size();
  const std::size_t at = out.size();
  out.resize(at + index_->bytes_max(count) + value_->bytes(count));
  const std::size_t index_bytes = index_->encode(positions, out.data() + at);
  std::array<float, kChunk> buffer;
  const auto values = std::span(buffer).first(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = chunk[positions[i]];
  value_->encode(values, values, out.data() + at + index_bytes, key);
  for (std::size_t i = 0; i < count; ++i) decoded[positions[i]] = values[i];
  out.resize(at + index_bytes + value_->bytes(count));
  return index_bytes;
}

void Sparse::encode_rest(ChunkSpan values, std::byte* out, const EncodeKey& key) const {
  sparsifier_->select(values, [&](std::size_t, std::span<const std::uint16_t> positions) {
    std::array<float, kChunk> buffer;
    const auto kept = std::span(buffer).first(positions.size());
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = values[positions[i]];
    const std::size_t index_bytes = index_->encode(positions, out);
    value_->encode_rest(kept, out + index_bytes, key);
    for (std::size_t i = 0; i < kept.size(); ++i) values[positions[i]] = kept[i];
  });
}

void Sparse::insert_tables(std::span<const std::uint16_t> counts,
                           std::span<const std::uint16_t> excess, std::size_t at,
                           std::vector<std::byte>& out) const {
  const auto insert = [&](std::span<const std::uint16_t> entries) {
    const std::vector<std::byte> table = pack_table(entries);
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(at), table.begin(), table.end());
    at += table.size();
  };
  if (sparsifier_->count_varies()) insert(counts);
  if (index_->bytes_vary()) insert(excess);
}

Tables Sparse::read_tables(std::span<const std::byte>& bytes, std::size_t chunks) const {
  const auto take = [&](std::size_t entry_max, const char* what) {
    const auto table = PackedTable::read(bytes, chunks, entry_max);
    if (!table) refuse(std::string("the table of ") + what);
    bytes = bytes.subspan(table->bytes());
    return table;
  };
  Tables tables;
  if (sparsifier_->count_varies()) tables.counts = take(sparsifier_->count_max(), "counts");
  if (index_->bytes_vary()) tables.excess = take(kChunk, "sizes");
  return tables;
}

Extent Sparse::extent(const Tables& tables, std::size_t chunk) const {
  Extent extent;
  extent.count = tables.counts ? tables.counts->at(chunk) : sparsifier_->count_max();
  const std::size_t excess = tables.excess ? tables.excess->at(chunk) : 0;
  if (excess > (extent.count == 0 ? 0 : excess_max(extent.count))) {
    refuse("positions of chunk " + std::to_string(chunk) + " in too many bytes");
  }
  if (extent.count == 0) return extent;
  extent.index_bytes = index_->bytes_min(extent.count) + excess;
  extent.value_bytes = value_->bytes(extent.count);
  return extent;
}

template <typename Visit>
void Sparse::for_each_chunk(std::span<const std::byte> bytes, std::size_t chunks,
                            const Visit& visit) const {
  const Tables tables = chunks == 0 ? Tables{} : read_tables(bytes, chunks);
  std::vector<Extent> extents;
  std::size_t needed = 0;
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    extents.push_back(extent(tables, chunk));
    extents.back().begin = needed;
    needed += extents.back().bytes();
  }
  if (bytes.size() != needed) {
    refuse(std::to_string(bytes.size()) + " bytes where " + std::to_string(needed) + " are needed");
  }
  const std::size_t bad = first_failure(chunks, [&](std::size_t chunk) {
    const Extent& own = extents[chunk];
    return own.count == 0 || visit(bytes.subspan(own.begin, own.bytes()), own, chunk);
  });
  if (bad != kNone) refuse("positions or values of chunk " + std::to_string(bad));
}

void Sparse::decode_add(std::span<const std::byte> bytes, float weight,
                        std::span<float> accumulator) const {
  const auto add = [&](auto chunk_bytes, const Extent& extent, std::size_t chunk) {
    std::array<std::uint16_t, kChunk> position_buffer;
    std::array<float, kChunk> value_buffer;
    const auto positions = std::span(position_buffer).first(extent.count);
    const auto values = std::span(value_buffer).first(extent.count);
    if (!index_->decode(chunk_bytes.first(extent.index_bytes), positions)) return false;
    if (!value_->decode(chunk_bytes.data() + extent.index_bytes, values)) return false;
    const auto to = accumulator.subspan(chunk * kChunk, kChunk);
    for (std::size_t i = 0; i < extent.count; ++i) to[positions[i]] += weight * values[i];
    return true;
  };
  for_each_chunk(bytes, accumulator.size() / kChunk, add);
}

void Sparse::add_weight(std::span<const std::byte> bytes, float weight,
                        std::span<float> weights) const {
  const auto add = [&](auto chunk_bytes, const Extent& extent, std::size_t chunk) {
    std::array<std::uint16_t, kChunk> position_buffer;
    const auto positions = std::span(position_buffer).first(extent.count);
    if (!index_->decode(chunk_bytes.first(extent.index_bytes), positions)) return false;
    const auto to = weights.subspan(chunk * kChunk, kChunk);
    for (const std::uint16_t position : positions) to[position] += weight;
    return true;
  };
  for_each_chunk(bytes, weights.size() / kChunk, add);
}

double Sparse::norm_squared_bound(std::span<const std::byte> bytes, std::size_t count) const {
  std::vector<double> of_chunks(count / kChunk);
  const auto measure = [&](auto chunk_bytes, const Extent& extent, std::size_t chunk) {
    of_chunks[chunk] =
        value_->norm_squared_bound(chunk_bytes.data() + extent.index_bytes, extent.count);
    return std::isfinite(of_chunks[chunk]);
  };
  for_each_chunk(bytes, of_chunks.size(), measure);
  return std::accumulate(of_chunks.begin(), of_chunks.end(), 0.0);
}

}  // namespace

std::unique_ptr<Codec> make_sparse(std::unique_ptr<Sparsifier> sparsifier,
                                   std::unique_ptr<ValueFormat> value,
                                   std::unique_ptr<IndexFormat> index) {
  return std::make_unique<Sparse>(std::move(sparsifier), std::move(value), std::move(index));
}

}  // namespace causeway::compression
