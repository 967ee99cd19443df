#include "compression/codecs/packed_table.h"

#include <gtest/gtest.h>

#include "tests/compression/codecs/samples.h"

namespace causeway::compression {
namespace {

using Entries = std::vector<std::uint16_t>;
using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(PackedTable, WritesTheSmallestTheWidthAndTheDifferences) {
  EXPECT_EQ(pack_table(Entries{0x102, 0x104, 0x102, 0x105}),
            bytes_of({0x02, 0x01, 2, 0b11'00'10'00}));
  EXPECT_EQ(pack_table(Entries(100, 64)), bytes_of({64, 0, 0}));
  EXPECT_EQ(pack_table(Entries{0, 0xFFFF}), bytes_of({0, 0, 16, 0, 0, 0xFF, 0xFF}));
}

TEST(PackedTable, ReadsAnyEntry) {
  for (const unsigned width : {0U, 1U, 3U, 7U, 8U, 11U, 13U, 16U}) {
    for (const std::size_t count : {1U, 2U, 9U, 256U}) {
      Entries entries(count);
      for (std::size_t i = 0; i < count; ++i) {
        entries[i] = static_cast<std::uint16_t>(mix(width << 16 | i) & ((1U << width) - 1));
      }
      Bytes bytes = pack_table(entries);
      const std::size_t size = bytes.size();
      EXPECT_LE(size, PackedTable::bytes_max(count, 0xFFFF));
      bytes.push_back(std::byte{0xFF});  // what follows is not the table's
      const auto table = PackedTable::read(bytes, count, 0xFFFF);
      ASSERT_TRUE(table);
      EXPECT_EQ(table->bytes(), size);
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(table->at(i), entries[i]);
    }
  }
}

TEST(PackedTable, RefusesWhatIsNotCanonical) {
  const auto accepts = [](std::initializer_list<int> values, std::size_t entry_max = 100) {
    const Bytes bytes = bytes_of(values);
    return PackedTable::read(bytes, 3, entry_max).has_value();
  };
  EXPECT_TRUE(accepts({5, 0, 2, 0b00'01'00'11}));
  EXPECT_FALSE(accepts({5, 0, 2, 0b00'01'01'11})) << "the smallest does not occur";
  EXPECT_FALSE(accepts({5, 0, 2, 0b00'01'00'01})) << "narrower would do";
  EXPECT_FALSE(accepts({5, 0, 2, 0b01'01'00'11})) << "unused bits";
  EXPECT_FALSE(accepts({5, 0, 2, 0b00'01'00'11}, 7)) << "an entry too large";
  EXPECT_TRUE(accepts({5, 0, 2, 0b00'01'00'11}, 8));
  EXPECT_FALSE(accepts({0xFF, 0xFF, 2, 0b00'01'00'11}, 0xFFFF)) << "beyond 16 bits";
  EXPECT_FALSE(accepts({5, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0})) << "width";
  EXPECT_FALSE(accepts({5, 0, 2})) << "too short";
  EXPECT_FALSE(accepts({5, 0})) << "too short";
}

}  // namespace
}  // namespace causeway::compression
