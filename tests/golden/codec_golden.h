// Written by make_codec_golden.py. Do not edit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace causeway::compression::golden {

struct Encoding {
  const char* spec;
  std::size_t bytes;
  std::uint64_t fnv1a;  // of the bytes
};

inline constexpr Encoding kEncodings[] = {
    {"dense:fp32", 32768, 0x0D1EDDB1440C4552},
    {"dense:int8,block=64", 8448, 0x6F93C06C89BDD7EA},
    {"dense:int8,block=128", 8320, 0x048DE38ACD4D47EA},
    {"topk:k=1", 16, 0xEC18333EC398B870},
    {"topk:k=41", 120, 0x7189B183FC61E96F},
    {"topk:k=64", 168, 0xFA3F31C74E715D23},
    {"topk:k=4096", 4104, 0x790D0D5A1E9740F5},
};

}  // namespace causeway::compression::golden
