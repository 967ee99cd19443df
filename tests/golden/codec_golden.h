// Written by make_codec_golden.py. Do not edit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace causeway::compression::golden {

struct Encoding {
  const char* spec;
  std::size_t bytes;
  std::uint64_t fnv1a;    // of the bytes
  std::uint64_t decoded;  // the same of the fp32 that they decode to
};

// clang-format off
inline constexpr Encoding kEncodings[] = {
    {"dense:fp32", 49152, 0xAA154DDA75DE4552, 0xAA154DDA75DE4552},
    {"dense:bf16", 24576, 0xF096696E74D05C63, 0xE2CE3210A82D27CB},
    {"dense:fp16", 24579, 0xE0C06C92BC161059, 0x546B2F5E06700418},
    {"dense:int8,block=64", 12672, 0x20866BC220412BEA, 0x7C7445CE94C3B780},
    {"dense:int8,block=128", 12480, 0x82A9B1142DD731EA, 0x69D1EE99F79FB570},
    {"dense:int8,block=128,rounding=stochastic", 12480, 0x44D43CE3C05A7D43, 0xB68F50D055595D53},
    {"dense:int4,block=64", 6528, 0x42F8FD00AB5079DB, 0x52BF5B4A4303D1A5},
    {"dense:int4,block=64,rounding=stochastic", 6528, 0x55E24F911F4715FC, 0x82C43391BA02C2E5},
    {"dense:int4-asymmetric,block=64", 6624, 0xC3B93094933AFE62, 0x7F5F40C44890E2EB},
    {"dense:2bit", 3084, 0x8B9A6ACC0064FEC5, 0x2C3E4ED5FC15D451},
    {"dense:1bit,block=64", 1968, 0xAB5A01319E58E871, 0x919FAA662967D435},
    {"topk:k=1", 24, 0x6ADF428CDA81ECA9, 0xC544E955D34F58E4},
    {"topk:k=41", 180, 0x83CF9A50A4B6387A, 0x0A07CA5E92E022FE},
    {"topk:k=64", 252, 0x58B59806D02475A3, 0xD140EFB3923EB8EE},
    {"topk:k=4096", 6156, 0x4598525BDD40DAC5, 0x2C3E4ED5FC15D451},
    {"topk:k=41,value=fp16,index=rice", 368, 0x4ACAE0ABD2C154B6, 0x1B882F76284A2E4C},
    {"topk:k=63,value=int4,block=16,index=packed-12", 405, 0x92E970300567D882, 0xFF72F9EBAEEDD827},
    {"topk:k=63,value=1bit,block=16,index=bitmap", 1587, 0xF034FD4E3B900573, 0x8D25C8100F81FDAC},
    {"topk:k=63,value=int8,block=64,index=raw", 951, 0x37C149BE0718268C, 0x1BCE97DC1FABF7CF},
    {"topk:k=64,skip-zeros=yes,index=elias-fano", 124, 0x5E39372EE1E60C3A, 0x8981C3ACEB5BD0CE},
    {"threshold:t=2,value=int4,block=64,index=rice", 437, 0x5B8142481E207F2B, 0x2A9F536E096AE821},
    {"threshold:t=2.5,value=int4-asymmetric,block=8,index=rice", 469, 0xBDF2AFD10E53BA86, 0x3E3FA231DC4D3559},
};
// clang-format on

}  // namespace causeway::compression::golden
