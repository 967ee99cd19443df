// Little-endian integers and packed bits in byte buffers. Every buffer is bounds-checked by the
// caller.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace causeway::compression {

static_assert(std::endian::native == std::endian::little,
              "encodings are little-endian and are read and written as memory");

template <typename Value>
Value load(const std::byte* from) {
  static_assert(std::is_trivially_copyable_v<Value>);
  Value value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename Value>
void store(std::byte* to, Value value) {
  static_assert(std::is_trivially_copyable_v<Value>);
  std::memcpy(to, &value, sizeof value);
}

constexpr std::size_t bytes_for_bits(std::size_t bits) {
  return (bits + 7) / 8;
}

// Appends fields of up to 32 bits, least significant bit first, to a buffer of bytes.
class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : to_(to) {}

  void put(std::uint32_t value, unsigned width) {
    pending_ |= std::uint64_t{value} << pending_bits_;
    pending_bits_ += width;
    if (pending_bits_ < 32) return;
    store(to_, static_cast<std::uint32_t>(pending_));
    to_ += sizeof(std::uint32_t);
    pending_ >>= 32;
    pending_bits_ -= 32;
  }
  // Writes what is left; the unused bits of the last byte are zero.
  void finish() {
    const std::size_t left = bytes_for_bits(pending_bits_);
    std::memcpy(to_, &pending_, left);
    to_ += left;
    pending_ = pending_bits_ = 0;
  }

 private:
  std::byte* to_;
  std::uint64_t pending_ = 0;
  unsigned pending_bits_ = 0;
};

// Reads what BitWriter wrote.
class BitReader {
 public:
  explicit BitReader(const std::byte* from) : from_(from) {}

  std::uint32_t get(unsigned width) {
    for (; pending_bits_ < width; pending_bits_ += 8) {
      pending_ |= std::to_integer<std::uint64_t>(*from_++) << pending_bits_;
    }
    const auto value = static_cast<std::uint32_t>(pending_ & ((std::uint64_t{1} << width) - 1));
    pending_ >>= width;
    pending_bits_ -= width;
    return value;
  }
  // True if the unused bits of the last byte read are zero, as they must be.
  bool rest_is_zero() const { return pending_ == 0; }

 private:
  const std::byte* from_;
  std::uint64_t pending_ = 0;
  unsigned pending_bits_ = 0;
};

// The same fields by place instead of in order, for device code.

// Byte `at` of `count` packed fields of `width` bits; field(i) is number i.
template <typename Field>
constexpr std::uint8_t packed_byte(std::uint32_t at, std::uint32_t width, std::uint32_t count,
                                   const Field& field) {
  if (width == 0) return 0;
  std::uint32_t byte = 0;
  for (std::uint32_t i = 8 * at / width; i < count && i * width < 8 * at + 8; ++i) {
    const std::uint32_t bit = i * width;
    byte |= bit < 8 * at ? field(i) >> (8 * at - bit) : field(i) << (bit - 8 * at);
  }
  return static_cast<std::uint8_t>(byte);
}

// Field number i, of up to 24 bits.
constexpr std::uint32_t packed_field(const std::uint8_t* bytes, unsigned width, std::size_t i) {
  std::uint32_t bits = 0;
  const std::size_t begin = i * width;
  for (std::size_t at = begin / 8; at * 8 < begin + width; ++at) {
    bits |= std::uint32_t{bytes[at]} << (at - begin / 8) * 8;
  }
  return bits >> begin % 8 & ((std::uint32_t{1} << width) - 1);
}

// True if no bit follows the last of `count` packed fields of `width` bits in its byte.
constexpr bool packed_rest_is_zero(const std::uint8_t* bytes, unsigned width, std::size_t count) {
  const std::size_t bits = count * width;
  return bits % 8 == 0 || bytes[bits / 8] >> bits % 8 == 0;
}

}  // namespace causeway::compression
