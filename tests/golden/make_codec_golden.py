#!/usr/bin/env python3
"""Golden hashes of encodings, computed from docs/payload.md alone.

Run: python3 make_codec_golden.py > codec_golden.h. Python 3 only, no packages; takes a few seconds. Python's floats are
IEEE fp64; fp32() rounds to fp32, which for one operation on fp32 numbers is that operation in fp32.
"""
import struct
from math import floor, frexp

MASK = (1 << 64) - 1
CHUNK = 4096
SEED, ROUND, REGION, FIRST = 0x0123456789ABCDEF, 7, 3, 5 * CHUNK  # the key of golden_test.cc


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def samples(count, seed):
    """exact_samples() of tests/compression/codecs/samples.h: every value is exact in fp32."""
    values = []
    for i in range(count):
        bits = mix(mix(seed) ^ i)
        values.append(((bits >> 41) - (1 << 22)) / (1 << (bits % 20)))
    return values


def fp32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def ufloat16(x):
    """Bits of the nearest unsigned float with 8 exponent and 8 fraction bits (normal numbers)."""
    if x == 0:
        return 0
    mantissa, exponent = frexp(x)
    significand = round(mantissa * 512)  # half to even
    if significand == 512:
        significand, exponent = 256, exponent + 1
    return ((exponent + 126) << 8) | (significand - 256)


def ufloat16_value(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 15))[0]


def scale_of(largest, top, cover):
    bits = ufloat16(fp32(largest / top))
    if cover and fp32(ufloat16_value(bits) * top) < largest:
        bits += 1
    return bits


def pack_bits(fields):
    """Fields of (value, width), least significant bit first, zero-padded to whole bytes."""
    bits = "".join(format(value, "0%db" % width)[::-1] for value, width in fields if width)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8][::-1], 2) for i in range(0, len(bits), 8))


def u16s(numbers):
    return struct.pack("<%dH" % len(numbers), *numbers)


def blocks(values, size):
    return [values[begin : begin + size] for begin in range(0, len(values), size)]


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def halves(x):
    return [x & 0xFFFFFFFF, x >> 32]


def unit(element):
    word = philox(halves(element // 4) + [ROUND, REGION], halves(SEED))[element % 4]
    return (word >> 8) / (1 << 24)


# Value formats: values and the place of the chunk they are of -> bytes and what they decode to.


def fp32_values(values, first):
    return struct.pack("<%df" % len(values), *values), list(values)


def bf16_values(values, first):
    codes = []
    for x in values:
        bits = struct.unpack("<I", struct.pack("<f", x))[0]
        upper, lower = bits >> 16, bits & 0xFFFF
        upper += 1 if lower > 0x8000 or (lower == 0x8000 and upper & 1) else 0
        codes.append(0 if upper == 0x8000 else upper)
    return u16s(codes), [struct.unpack("<f", struct.pack("<I", code << 16))[0] for code in codes]


def fp16_values(values, first):
    largest = max(abs(x) for x in values)
    if largest == 0:
        return bytes(1 + 2 * len(values)), list(values)
    field = frexp(largest)[1] + 126  # of an fp32
    unit_of_chunk = 2.0 ** (field - 15 - 126)
    halves_ = [struct.pack("<e", x / unit_of_chunk + 0.0) for x in values]
    halves_ = [bytes(2) if half == b"\x00\x80" else half for half in halves_]
    decoded = [struct.unpack("<e", half)[0] * unit_of_chunk for half in halves_]
    return bytes([field - 15]) + b"".join(halves_), decoded


def int8_values(size, stochastic=False):
    def encode(values, first):
        scales, codes, decoded = [], [], []
        for block in blocks(values, size):
            bits = scale_of(max(abs(x) for x in block), 127, stochastic)
            scales.append(bits)
            for x in block:
                y = fp32(x / (ufloat16_value(bits) or 1.0))
                code = round(y)
                if stochastic:
                    code = floor(y) + (unit(first + len(codes)) < fp32(y - floor(y)))
                codes.append(code)
                decoded.append(ufloat16_value(bits) * code)
        return u16s(scales) + bytes(code & 255 for code in codes), decoded

    return encode


def pack_nibbles(codes):
    return pack_bits([(code, 4) for code in codes])


INT4 = [float(level) for level in range(-7, 8)]


def nearest_level(levels, y):
    zero, code = levels.index(0), 0
    while code + 1 < len(levels):
        middle = fp32(levels[code] + levels[code + 1]) / 2
        if y < middle or (y == middle and (code - zero) % 2 == 0):
            break
        code += 1
    return code


def stochastic_level(levels, y, u):
    below = max([0] + [j for j in range(len(levels) - 1) if y >= levels[j]])
    low, high = levels[below], levels[below + 1]
    return below + (u < fp32(fp32(y - low) / fp32(high - low)))


def grid_values(levels, size, stochastic=False):
    def encode(values, first):
        scales, codes, decoded = [], [], []
        for block in blocks(values, size):
            bits = scale_of(max(abs(x) for x in block), levels[-1], stochastic)
            scales.append(bits)
            for x in block:
                y = fp32(x / (ufloat16_value(bits) or 1.0))
                if stochastic:
                    code = stochastic_level(levels, y, unit(first + len(codes)))
                else:
                    code = nearest_level(levels, y)
                codes.append(code)
                decoded.append(fp32(ufloat16_value(bits) * levels[code]))
        return u16s(scales) + pack_nibbles(codes), decoded

    return encode


def int4_asymmetric_values(size):
    def encode(values, first):
        scales, zeros, codes, decoded = [], [], [], []
        for block in blocks(values, size):
            low, high = min(0.0, min(block)), max(0.0, max(block))
            bits = scale_of(fp32(high - low), 15, False)
            scale = ufloat16_value(bits)
            zero = min(15, round(fp32(-low / (scale or 1.0))))
            scales.append(bits)
            zeros.append(zero)
            for x in block:
                codes.append(min(15, max(0, round(fp32(x / (scale or 1.0))) + zero)))
                decoded.append(scale * (codes[-1] - zero))
        return u16s(scales) + pack_nibbles(zeros) + pack_nibbles(codes), decoded

    return encode


def exponent_field(values):
    return frexp(max(abs(x) for x in values))[1] + 126


def fixed_point(x, field):
    return floor(abs(x) / 2.0 ** (field - 166))


def mean_of(fixed, field):
    return ufloat16(fp32(sum(fixed) / len(fixed) * 2.0 ** (field - 166)))


def two_bit_values(values, first):
    if not any(values):
        return bytes((len(values) + 3) // 4 + 4), [0.0] * len(values)
    field = exponent_field(values)
    fixed = [fixed_point(x, field) for x in values]
    if 0 in values:
        high = [x != 0 for x in values]
    else:
        high = [f * len(values) >= sum(fixed) for f in fixed]
    means = []
    for want in (False, True):
        group = [f for f, h in zip(fixed, high) if h == want]
        means.append(mean_of(group, field) if any(group) else 0)
    codes = [(int(h) | (2 if x < 0 else 0), 2) for x, h in zip(values, high)]
    decoded = [ufloat16_value(means[h]) * (-1 if x < 0 else 1) for x, h in zip(values, high)]
    return pack_bits(codes) + u16s(means), decoded


def one_bit_values(size):
    def encode(values, first):
        means, kinds, bits, decoded = [], [], [], []
        for block in blocks(values, size):
            kind, mean = 0, 0
            if any(block):
                field = exponent_field(block)
                positive = [fixed_point(x, field) for x in block if x > 0]
                negative = [fixed_point(x, field) for x in block if x < 0]
                group = positive + negative
                if 0 in block:
                    kind = 2 if sum(negative) > sum(positive) else 1
                    group = negative if kind == 2 else positive
                mean = mean_of(group, field)
            means.append(mean)
            kinds.append((kind, 2))
            for x in block:
                bit = x > 0 if kind == 1 else x < 0
                bits.append((int(bit), 1))
                clear, set_ = {0: (1, -1), 1: (0, 1), 2: (0, -1)}[kind]
                decoded.append(ufloat16_value(mean) * (set_ if bit else clear))
        return u16s(means) + pack_bits(kinds) + pack_bits(bits), decoded

    return encode


# Index formats: positions -> bytes and the fewest bytes that so many positions take.


def elias_fano(positions):
    k = len(positions)
    low_width = (CHUNK // k).bit_length() - 1
    bitmap = [0] * (k + (CHUNK >> low_width))
    for rank, i in enumerate(positions):
        bitmap[(i >> low_width) + rank] = 1
    low = pack_bits([(i & ((1 << low_width) - 1), low_width) for i in positions])
    return low + pack_bits([(bit, 1) for bit in bitmap])


def rice(positions):
    k = len(positions)
    r = ((1971 - k // 4) // k).bit_length()
    fields, following = [], 0
    for i in positions:
        skipped = i - following
        fields += [(1, 1)] * (skipped >> r) + [(0, 1), (skipped & ((1 << r) - 1), r)]
        following = i + 1
    return pack_bits(fields)


def rice_fewest(k):
    r = ((1971 - k // 4) // k).bit_length()
    return (k * (r + 1) + 7) // 8


def packed_12(positions):
    return pack_bits([(i, 12) for i in positions])


def bitmap(positions):
    return pack_bits([(int(i in set(positions)), 1) for i in range(CHUNK)])


def raw(positions):
    return struct.pack("<%dI" % len(positions), *positions)


# Sparsifiers: the segment -> positions of each chunk.


def largest(values, k):
    return sorted(sorted(range(len(values)), key=lambda i: (-abs(values[i]), i))[:k])


def topk(k, skip_zeros=False):
    def select(segment):
        kept = [largest(chunk, k) for chunk in blocks(segment, CHUNK)]
        if skip_zeros:
            kept = [[i for i in p if c[i] != 0] for p, c in zip(kept, blocks(segment, CHUNK))]
        return kept

    return select


def by_chunk(positions, segment):
    chunks = [[] for _ in blocks(segment, CHUNK)]
    for i in positions:
        chunks[i // CHUNK].append(i % CHUNK)
    return chunks


def sum_of_squares(chunk):
    lanes = [0.0] * 256
    for i, x in enumerate(chunk):
        lanes[i // 512 * 32 + i % 32] += x * x
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [lanes[j] + lanes[j + half] for j in range(half)]
    return lanes[0]


def threshold(t):
    def select(segment):
        total = 0.0
        for chunk in blocks(segment, CHUNK):
            total += sum_of_squares(chunk)
        kept = [i for i, x in enumerate(segment) if x != 0 and x * x * len(segment) >= t * t * total]
        return by_chunk(kept, segment)

    return select


# Codecs: the segment -> bytes and what they decode to.


def dense(values_of):
    def encode(segment):
        parts = [values_of(c, FIRST + i * CHUNK) for i, c in enumerate(blocks(segment, CHUNK))]
        return b"".join(data for data, _ in parts), sum((decoded for _, decoded in parts), [])

    return encode


def table(entries):
    width = (max(entries) - min(entries)).bit_length()
    fields = [(entry - min(entries), width) for entry in entries]
    return struct.pack("<HB", min(entries), width) + pack_bits(fields)


def sparse(select, values_of, index, counts_vary=False):
    def encode(segment):
        counts, excess, body, decoded = [], [], b"", [0.0] * len(segment)
        for chunk, positions in enumerate(select(segment)):
            counts.append(len(positions))
            excess.append(0)
            if not positions:
                continue
            places = [chunk * CHUNK + i for i in positions]
            index_bytes = index(positions)
            data, values = values_of([segment[i] for i in places], FIRST + chunk * CHUNK)
            body += index_bytes + data
            for i, value in zip(places, values):
                decoded[i] = value
            if index is rice:
                excess[-1] = len(index_bytes) - rice_fewest(len(positions))
        head = table(counts) if counts_vary else b""
        head += table(excess) if index is rice else b""
        return head + body, decoded

    return encode


CODECS = {
    "dense:fp32": dense(fp32_values),
    "dense:bf16": dense(bf16_values),
    "dense:fp16": dense(fp16_values),
    "dense:int8,block=64": dense(int8_values(64)),
    "dense:int8,block=128": dense(int8_values(128)),
    "dense:int8,block=128,rounding=stochastic": dense(int8_values(128, True)),
    "dense:int4,block=64": dense(grid_values(INT4, 64)),
    "dense:int4,block=64,rounding=stochastic": dense(grid_values(INT4, 64, True)),
    "dense:int4-asymmetric,block=64": dense(int4_asymmetric_values(64)),
    "dense:2bit": dense(two_bit_values),
    "dense:1bit,block=64": dense(one_bit_values(64)),
    "topk:k=1": sparse(topk(1), two_bit_values, elias_fano),
    "topk:k=41": sparse(topk(41), two_bit_values, elias_fano),
    "topk:k=64": sparse(topk(64), two_bit_values, elias_fano),
    "topk:k=4096": sparse(topk(4096), two_bit_values, elias_fano),
    "topk:k=41,value=fp16,index=rice": sparse(topk(41), fp16_values, rice),
    "topk:k=63,value=int4,block=16,index=packed-12": sparse(topk(63), grid_values(INT4, 16), packed_12),
    "topk:k=63,value=1bit,block=16,index=bitmap": sparse(topk(63), one_bit_values(16), bitmap),
    "topk:k=63,value=int8,block=64,index=raw": sparse(topk(63), int8_values(64), raw),
    "topk:k=64,skip-zeros=yes,index=elias-fano": sparse(topk(64, True), two_bit_values, elias_fano, True),
    "threshold:t=2,value=int4,block=64,index=rice": sparse(threshold(2), grid_values(INT4, 64), rice, True),
    "threshold:t=2.5,value=int4-asymmetric,block=8,index=rice": sparse(
        threshold(2.5), int4_asymmetric_values(8), rice, True
    ),
}


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
  std::uint64_t fnv1a;    // of the bytes
  std::uint64_t decoded;  // the same of the fp32 that they decode to
};

// clang-format off
inline constexpr Encoding kEncodings[] = {"""


def main():
    values = samples(3 * CHUNK, 5)
    values[CHUNK : 2 * CHUNK] = [x if i < 20 else 0.0 for i, x in enumerate(values[CHUNK : 2 * CHUNK])]  # a padded chunk
    values[2 * CHUNK :] = [0.0] * CHUNK
    print(HEADER)
    for spec, encode in CODECS.items():
        data, decoded = encode(values)
        decoded = struct.pack("<%df" % len(decoded), *(x + 0.0 for x in decoded))
        print('    {"%s", %d, 0x%016X, 0x%016X},' % (spec, len(data), fnv1a(data), fnv1a(decoded)))
    print("};\n// clang-format on\n\n}  // namespace causeway::compression::golden")


if __name__ == "__main__":
    main()
