#include "inter/base/wire.h"

#include <cstdint>

#include <gtest/gtest.h>

namespace causeway::inter {
namespace {

TEST(LittleEndian, TheLowestByteIsFirst) {
  EXPECT_EQ(little_endian_text(std::uint32_t{0x04030201}), "\x01\x02\x03\x04");
  EXPECT_EQ(from_little_endian<std::uint32_t>("\x01\x02\x03\x04 and more"), 0x04030201U);
}

TEST(LittleEndian, EveryBitComesBack) {
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t number = std::uint64_t{1} << bit;
    EXPECT_EQ(from_little_endian<std::uint64_t>(to_little_endian(number)), number);
  }
  EXPECT_EQ(from_little_endian<std::uint16_t>(to_little_endian(std::uint16_t{0xfffe})), 0xfffe);
}

}  // namespace

}  // namespace causeway::inter
