#!/usr/bin/env python3
"""Golden hashes of encodings, computed from docs/wire-format.md alone with exact fractions.

Run: python3 make_codec_golden.py > codec_golden.h. Python 3 only, no packages; takes a few seconds.
"""
import struct
from fractions import Fraction
from math import frexp

MASK = (1 << 64) - 1
CHUNK = 4096


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def samples(count, seed):
    """exact_samples() of tests/compression/samples.h: every value is exact in fp32."""
    values = []
    for i in range(count):
        bits = mix(mix(seed) ^ i)
        values.append(float(Fraction((bits >> 41) - (1 << 22), 1 << (bits % 20))))
    return values


def fp32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def ufloat16(x):
    """Bits and value of the nearest unsigned float with 8 exponent and 8 fraction bits (normal numbers)."""
    if x == 0:
        return 0, 0.0
    mantissa, exponent = frexp(x)
    significand = round(mantissa * 512)  # half to even
    if significand == 512:
        significand, exponent = 256, exponent + 1
    return ((exponent + 126) << 8) | (significand - 256), significand * 2.0 ** (exponent - 9)


def pack_bits(fields):
    """Fields of (value, width), least significant bit first, zero-padded to whole bytes."""
    bits = "".join(format(value, "0%db" % width)[::-1] for value, width in fields if width)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8][::-1], 2) for i in range(0, len(bits), 8))


def int8_chunk(chunk, block):
    scales, codes = b"", b""
    for begin in range(0, CHUNK, block):
        part = chunk[begin : begin + block]
        bits, scale = ufloat16(fp32(max(abs(x) for x in part) / 127))
        scales += struct.pack("<H", bits)
        codes += bytes(round(fp32(x / (scale or 1.0))) & 255 for x in part)
    return scales + codes


def topk_chunk(chunk, k):
    kept = sorted(sorted(range(CHUNK), key=lambda i: (-abs(chunk[i]), i))[:k])
    magnitudes = [Fraction(abs(chunk[i])) for i in kept]
    low_width = (CHUNK // k).bit_length() - 1
    bitmap = [0] * (k + (CHUNK >> low_width))
    for rank, i in enumerate(kept):
        bitmap[(i >> low_width) + rank] = 1
    index = pack_bits([(i & ((1 << low_width) - 1), low_width) for i in kept])
    index += pack_bits([(bit, 1) for bit in bitmap])

    if 0 in magnitudes:
        high = [m > 0 for m in magnitudes]
    else:
        total = sum(magnitudes)
        high = [m * k >= total for m in magnitudes]
    centroids = []
    for want in (False, True):
        group = [m for m, h in zip(magnitudes, high) if h == want]
        centroids.append(ufloat16(fp32(float(sum(group) / len(group))) if group else 0)[0])
    codes = [(int(h) | (2 if chunk[i] < 0 else 0), 2) for i, h in zip(kept, high)]
    return index + pack_bits(codes) + struct.pack("<HH", *centroids)


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


HEADER = """// Written by make_codec_golden.py. Do not edit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace causeway::compression::golden {

struct Encoding {
  const char* spec;
  std::size_t bytes;
  std::uint64_t fnv1a;  // of the bytes
};

inline constexpr Encoding kEncodings[] = {"""


def main():
    values = samples(2 * CHUNK, 5)
    values[CHUNK:] = [x if i < 20 else 0.0 for i, x in enumerate(values[CHUNK:])]  # and a padded chunk
    codecs = {
        "dense:fp32": lambda c: struct.pack("<4096f", *c),
        "dense:int8,block=64": lambda c: int8_chunk(c, 64),
        "dense:int8,block=128": lambda c: int8_chunk(c, 128),
        "topk:k=1": lambda c: topk_chunk(c, 1),
        "topk:k=41": lambda c: topk_chunk(c, 41),
        "topk:k=64": lambda c: topk_chunk(c, 64),
        "topk:k=4096": lambda c: topk_chunk(c, 4096),
    }
    print(HEADER)
    for spec, encode in codecs.items():
        data = encode(values[:CHUNK]) + encode(values[CHUNK:])
        print('    {"%s", %d, 0x%016X},' % (spec, len(data), fnv1a(data)))
    print("};\n\n}  // namespace causeway::compression::golden")


if __name__ == "__main__":
    main()
