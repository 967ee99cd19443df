#include "compression/codecs/packed_table.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "compression/base/bytes.h"

namespace causeway::compression {
namespace {

constexpr std::size_t kWidthsBytes = 3;
constexpr unsigned kWidthMax = 16;

}  // namespace

std::vector<std::byte> pack_table(std::span<const std::uint16_t> entries) {
  assert(!entries.empty());
  const auto [smallest, largest] = std::minmax_element(entries.begin(), entries.end());
  const auto width = static_cast<unsigned>(std::bit_width(std::uint32_t{*largest} - *smallest));
  std::vector<std::byte> bytes(kWidthsBytes + bytes_for_bits(entries.size() * width));
  store(bytes.data(), *smallest);
  store(bytes.data() + sizeof *smallest, static_cast<std::uint8_t>(width));
  BitWriter writer(bytes.data() + kWidthsBytes);
  for (const std::uint16_t entry : entries) writer.put(std::uint32_t{entry} - *smallest, width);
  writer.finish();
  return bytes;
}

std::size_t PackedTable::bytes_max(std::size_t count, std::size_t entry_max) {
  const auto width = static_cast<std::size_t>(std::bit_width(entry_max));
  return kWidthsBytes + bytes_for_bits(count * width);
}

std::optional<PackedTable> PackedTable::read(std::span<const std::byte> bytes, std::size_t count,
                                             std::size_t entry_max) {
  assert(count > 0);
  if (bytes.size() < kWidthsBytes) return {};
  PackedTable table;
  table.count_ = count;
  table.smallest_ = load<std::uint16_t>(bytes.data());
  table.width_ = load<std::uint8_t>(bytes.data() + sizeof table.smallest_);
  if (table.width_ > kWidthMax) return {};
  const std::size_t field_bytes = bytes_for_bits(count * table.width_);
  if (bytes.size() - kWidthsBytes < field_bytes) return {};
  table.fields_ = bytes.subspan(kWidthsBytes, field_bytes);
  if (!table.is_canonical(entry_max)) return {};
  return table;
}

bool PackedTable::is_canonical(std::size_t entry_max) const {
  BitReader reader(fields_.data());
  std::uint32_t smallest = ~std::uint32_t{0};
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const std::uint32_t field = reader.get(width_);
    smallest = std::min(smallest, field);
    largest = std::max(largest, field);
  }
  return reader.rest_is_zero() && smallest == 0 &&
         static_cast<unsigned>(std::bit_width(largest)) == width_ &&
         smallest_ + largest <= entry_max;
}

std::size_t PackedTable::bytes() const {
  return kWidthsBytes + fields_.size();
}

std::uint16_t PackedTable::at(std::size_t i) const {
  assert(i < count_);
  const std::size_t bit = i * width_;
  std::uint32_t word = 0;  // up to 16 bits that begin within the first 8
  std::memcpy(&word, fields_.data() + bit / 8, std::min<std::size_t>(3, fields_.size() - bit / 8));
  const std::uint32_t field = word >> bit % 8 & ((std::uint32_t{1} << width_) - 1);
  return static_cast<std::uint16_t>(smallest_ + field);
}

}  // namespace causeway::compression
