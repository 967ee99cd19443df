#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/base/bytes.h"
#include "compression/base/codec.h"
#include "compression/index/index.h"

namespace causeway::compression {
namespace {

// Rice coding of k ascending positions below 4,096: the number of positions skipped before each,
// its quotient by 2^r in unary (ones, then a zero), then its r low bits. Bits fill bytes from the
// least significant up; the last byte is filled with zeros.
struct Rice {
  std::size_t k;  // 1 to kChunk

  // The best for geometric gaps but for a few k, by 0.01 bits (A. Kiely, "Selecting the Golomb
  // parameter in Rice coding", 2004): 1 + floor(log2(ln(golden ratio) / -ln(1 - k / kChunk))), with
  // 1 / p - 1 / 2 for -1 / ln(1 - p).
  constexpr unsigned low_bits() const {
    constexpr std::size_t kChunkLnGolden = 1971;
    return static_cast<unsigned>(std::bit_width((kChunkLnGolden - k / 4) / k));
  }
  // If nothing is skipped; if all is.
  constexpr std::size_t bytes_min() const { return bytes_for_bits(k * (low_bits() + 1)); }
  constexpr std::size_t bytes_max() const {
    return bytes_for_bits(k * (low_bits() + 1) + ((kChunk - k) >> low_bits()));
  }

  // `out`: bytes_max() zeros. `positions`: k, strictly ascending, below kChunk. Returns the bytes
  // used.
  std::size_t encode(std::span<const std::uint16_t> positions, std::byte* out) const;

  // Untrusted bytes, at most bytes_max(). False unless they are what encode() writes for some
  // positions.
  bool decode(std::span<const std::byte> bytes, std::span<std::uint16_t> positions) const;
};

// At least 57 bits of a buffer from any of its bits on, then zeros. Reads 8 bytes.
std::uint64_t bits_from(const std::byte* bytes, std::size_t bit) {
  return load<std::uint64_t>(bytes + bit / 8) >> bit % 8;
}

constexpr std::size_t largest_bytes_max() {
  std::size_t most = 0;
  for (std::size_t k = 1; k <= kChunk; ++k) most = std::max(most, Rice{k}.bytes_max());
  return most;
}

std::size_t Rice::encode(std::span<const std::uint16_t> positions, std::byte* out) const {
  assert(positions.size() == k);
  const unsigned low = low_bits();
  BitWriter writer(out);
  std::size_t bits = 0;
  std::uint32_t next = 0;
  for (const std::uint16_t position : positions) {
    const std::uint32_t skipped = position - next;
    std::uint32_t quotient = skipped >> low;
    bits += quotient + 1 + low;
    for (; quotient >= 16; quotient -= 16) writer.put(0xFFFF, 16);
    // The rest of the ones, a zero, and the low bits above them: at most 16 + 12 bits.
    const std::uint32_t remainder = skipped & ((std::uint32_t{1} << low) - 1);
    writer.put(((std::uint32_t{1} << quotient) - 1) | remainder << (quotient + 1),
               quotient + 1 + low);
    next = position + 1U;
  }
  writer.finish();
  return bytes_for_bits(bits);
}

bool Rice::decode(std::span<const std::byte> bytes, std::span<std::uint16_t> positions) const {
  assert(positions.size() == k && bytes.size() <= bytes_max());
  const unsigned low = low_bits();
  // A copy with zeros after it, from which 8 bytes can be read anywhere.
  std::array<std::byte, largest_bytes_max() + sizeof(std::uint64_t)> buffer{};
  std::copy(bytes.begin(), bytes.end(), buffer.begin());
  const std::size_t end = bytes.size() * 8;
  const std::uint64_t mask = (std::uint64_t{1} << low) - 1;
  constexpr std::uint32_t kOnes = 0xFFFFFFFF;
  std::size_t bit = 0;
  std::uint32_t next = 0;
  for (std::uint16_t& position : positions) {
    std::uint32_t quotient = 0;
    std::uint64_t window = bits_from(buffer.data(), bit);
    for (; static_cast<std::uint32_t>(window) == kOnes; quotient += 32, bit += 32) {
      window = bits_from(buffer.data(), bit + 32);
    }
    const auto ones = static_cast<unsigned>(std::countr_one(window));
    quotient += ones;
    const std::uint64_t remainder = window >> (ones + 1) & mask;
    bit += ones + 1 + low;
    const std::uint64_t at = next + (std::uint64_t{quotient} << low | remainder);
    if (bit > end || at >= kChunk) return false;
    position = static_cast<std::uint16_t>(at);
    next = position + 1U;
  }
  const std::uint64_t rest = bits_from(buffer.data(), bit);
  return end - bit < 8 && rest == 0;
}

class RiceIndex final : public IndexFormat {
 public:
  std::string name() const override { return "rice"; }
  std::size_t bytes_min(std::size_t count) const override { return Rice{count}.bytes_min(); }
  std::size_t bytes_max(std::size_t count) const override { return Rice{count}.bytes_max(); }
  bool bytes_vary() const override { return true; }

  std::size_t encode(std::span<const std::uint16_t> positions, std::byte* out) const override {
    return Rice{positions.size()}.encode(positions, out);
  }
  bool decode(std::span<const std::byte> bytes, std::span<std::uint16_t> positions) const override {
    return Rice{positions.size()}.decode(bytes, positions);
  }
};

}  // namespace

std::unique_ptr<IndexFormat> make_rice() {
  return std::make_unique<RiceIndex>();
}

}  // namespace causeway::compression
