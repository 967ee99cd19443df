// Small integers, one per chunk, in as many bits as their range needs: u16 smallest, u8 width, then
// each entry's distance from the smallest in `width` bits. Any entry can be read by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace causeway::compression {

// `entries`: at least one.
std::vector<std::byte> pack_table(std::span<const std::uint16_t> entries);

class PackedTable {
 public:
  // No table of `count` entries up to `entry_max` has more bytes.
  static std::size_t bytes_max(std::size_t count, std::size_t entry_max);

  // Untrusted bytes, of which the table is the beginning. Empty unless they are exactly what
  // pack_table() writes for `count` (at least 1) entries up to `entry_max`. Keeps a view of them.
  static std::optional<PackedTable> read(std::span<const std::byte> bytes, std::size_t count,
                                         std::size_t entry_max);

  std::size_t bytes() const;
  std::uint16_t at(std::size_t i) const;

 private:
  PackedTable() = default;
  bool is_canonical(std::size_t entry_max) const;

  std::span<const std::byte> fields_;
  std::size_t count_ = 0;
  std::uint16_t smallest_ = 0;
  unsigned width_ = 0;
};

}  // namespace causeway::compression
