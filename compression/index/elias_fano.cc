#include "compression/index/elias_fano.h"

#include <algorithm>
#include <cassert>

#include "compression/index/index.h"

namespace causeway::compression {
namespace {

// Calls visit(position) for each set bit, ascending, until it returns false; false then.
template <typename Visit>
bool for_each_set_bit(const std::byte* bitmap, std::size_t bytes, const Visit& visit) {
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bitmap + at, bytes - at < sizeof word ? bytes - at : sizeof word);
    for (; word != 0; word &= word - 1) {
      if (!visit(at * 8 + static_cast<std::size_t>(std::countr_zero(word)))) return false;
    }
  }
  return true;
}

}  // namespace

void EliasFano::encode(std::span<const std::uint16_t> indices, std::byte* out) const {
  assert(indices.size() == k);
  const unsigned low = low_bits;
  BitWriter low_part(out);
  std::byte* high_part = out + low_bytes();
  std::uint64_t word = 0;  // bits of the high part from 8 * at on
  std::size_t at = 0;
  for (std::size_t i = 0; i < k; ++i) {
    low_part.put(indices[i] & ((1U << low) - 1), low);
    const std::size_t position = high_position(indices[i], i);
    for (; position >= 8 * at + 64; at += sizeof word, word = 0) store(high_part + at, word);
    word |= std::uint64_t{1} << (position - 8 * at);
  }
  low_part.finish();
  std::memcpy(high_part + at, &word, std::min(sizeof word, high_bytes() - at));
}

bool EliasFano::decode(const std::byte* bytes, std::span<std::uint16_t> indices) const {
  assert(indices.size() == k);
  const unsigned low = low_bits;
  BitReader low_part(bytes);
  std::size_t count = 0;
  std::size_t smallest = 0;  // what the next index must be at least
  const bool ascending =
      for_each_set_bit(bytes + low_bytes(), high_bytes(), [&](std::size_t position) {
        if (count == k) return false;
        const std::size_t index = index_at(position, count, low_part.get(low));
        if (index < smallest || index >= kChunk) return false;
        indices[count++] = static_cast<std::uint16_t>(index);
        smallest = index + 1;
        return true;
      });
  return ascending && count == k && low_part.rest_is_zero();
}

namespace {

class EliasFanoIndex final : public IndexFormat {
 public:
  std::string name() const override { return "elias-fano"; }
  std::size_t bytes_min(std::size_t count) const override { return EliasFano{count}.bytes(); }

  std::size_t encode(std::span<const std::uint16_t> positions, std::byte* out) const override {
    const EliasFano coder{positions.size()};
    coder.encode(positions, out);
    return coder.bytes();
  }

  bool decode(std::span<const std::byte> bytes, std::span<std::uint16_t> positions) const override {
    assert(bytes.size() == bytes_min(positions.size()));
    return EliasFano{positions.size()}.decode(bytes.data(), positions);
  }
};

}  // namespace

std::unique_ptr<IndexFormat> make_elias_fano() {
  return std::make_unique<EliasFanoIndex>();
}

}  // namespace causeway::compression
