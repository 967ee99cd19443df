#!/usr/bin/env python3
"""Computes the states of a run again, from docs/audit.md, docs/payload.md and docs/file-formats.md alone.

    audit.py REGION_DIRECTORY [CERTIFICATES]

Needs Python 3.11 and numpy, a run with ledger.keep = "all", and the state of version 0 in archive/ or a later one. Prints the
digest of every version; ends with 1 at the first that is not the one in the ledger. With CERTIFICATES it checks the region's
signatures too."""
import hashlib
import json
import pathlib
import struct
import sys
import tomllib

import numpy as np

from ed25519 import is_signed, public_key

CHUNK, SEGMENT_MAX = 4096, 1 << 20
F = np.float32


# ---- Protocol Buffers and the ledger ----

def fields(data):
    """Of a message: {number: [values]}; bytes, or integers."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            value = varint()
        else:
            size = varint() if kind == 2 else {1: 8, 5: 4}[kind]
            value = data[at:at + size]
            at += size
            if kind != 2:
                value = int.from_bytes(value, "little")
        found.setdefault(number, []).append(value)
    return found


def get(message, number, default=0):
    return message.get(number, [default])[-1]


def read_ledger(directory):
    """(hash, LedgerEntry, LogEntry) of every entry, their chain checked."""
    run_id, *more = (directory / "ledger/run").read_text().splitlines()
    if more and not more[0].startswith(("format 1", "xxh3 ")):  # "xxh3" and nothing else before there were formats
        sys.exit("ledger/run is of a later format than this example knows")
    data, at, entries = (directory / "ledger/records").read_bytes(), 0, []
    head = hashlib.sha256(run_id.encode()).digest()
    while at + 4 <= len(data) and at + 4 + (size := int.from_bytes(data[at:at + 4], "little")) <= len(data):
        entry = fields(data[at + 4:at + 4 + size])
        head = hashlib.sha256(head + get(entry, 1, b"")).digest()
        if head != get(entry, 2):
            sys.exit(f"entry {len(entries) + 1} does not follow the one before it")
        entries.append((head, entry, fields(get(entry, 1))))
        at += 4 + size
    return entries


def read_records(entries):
    """Those that stand: a record that takes contributions out of its round replaces it, and voids all after it."""
    records, revision = [], 0
    for record in (fields(get(log, 2)) for _, _, log in entries if 2 in log):
        round = get(record, 2)
        if get(record, 16) == revision and (round < len(records) if 15 in record else round == len(records)):
            records[round:] = [record]
            revision += 15 in record
    return records


def check_signatures(directory, entries, key):
    for number, (head, entry, _) in enumerate(entries, 1):
        own = head + struct.pack("<Q", get(entry, 4)) + get(entry, 5, b"")
        if not is_signed(key, head, get(entry, 3, b"")) or 5 in entry and not is_signed(key, own, get(entry, 6, b"")):
            sys.exit(f"entry {number} is not signed by the region")
    finished = directory / "ledger/finished"
    if not finished.exists():
        return None
    data = finished.read_bytes()
    if data[:4] != b"CWF1":
        sys.exit("ledger/finished is of another format than this example knows")
    last = fields(data[12:])  # data[4:12] is the XXH3 of the rest: for disks, where the signature says more
    if get(last, 1) > sum(2 in log for _, _, log in entries):
        sys.exit("the ledger ends before the version that ledger/finished names: records are missing")
    content = struct.pack("<Q", get(last, 1)) + get(last, 2)
    signed = any(is_signed(key, head + content, get(last, 4, b"")) for head, _, _ in entries[:-5:-1])
    return (get(last, 1), get(last, 2)) if signed else None


# ---- Payloads ----

def bits_of(data, count, width=1):
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[:count * width].reshape(count, width)
    return bits @ (1 << np.arange(width)) if width else np.zeros(count, np.int64)


def ufloats(data):
    return (np.frombuffer(data, "<u2").astype(np.uint32) << 15).view(F)


def spread(block_values, block, count):
    return np.repeat(block_values, block)[:count]


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, size):
        return int.from_bytes(self.take(size), "little")

    def table(self, count):
        smallest, width = self.number(2), self.number(1)
        return smallest + bits_of(self.take((count * width + 7) // 8), count, width)


def read_values(reader, kind, m, options):
    if kind == "fp32":
        return np.frombuffer(reader.take(4 * m), "<f4")
    if kind == "bf16":
        return (np.frombuffer(reader.take(2 * m), "<u2").astype(np.uint32) << 16).view(F)
    if kind == "fp16":
        power = F(2.0) ** F(reader.number(1) - 126)
        return np.frombuffer(reader.take(2 * m), "<f2").astype(F) * power
    if kind == "2bit":
        codes, centroids = bits_of(reader.take((2 * m + 7) // 8), m, 2), ufloats(reader.take(4))
        return np.where(codes & 2, -centroids[codes & 1], centroids[codes & 1])
    block = int(options["block"])
    blocks = -(-m // block)
    scales = spread(ufloats(reader.take(2 * blocks)), block, m)
    if kind == "int8":
        return scales * np.frombuffer(reader.take(m), np.int8).astype(F)
    if kind == "1bit":
        kinds = spread(bits_of(reader.take((2 * blocks + 7) // 8), blocks, 2), block, m)
        chosen = bits_of(reader.take((m + 7) // 8), m).astype(bool)
        return np.where(chosen, np.where(kinds == 1, scales, -scales), np.where(kinds == 0, scales, F(0)))
    if kind == "int4-asymmetric":
        zeros = spread(bits_of(reader.take((blocks + 1) // 2), blocks, 4), block, m)
        return scales * (bits_of(reader.take((m + 1) // 2), m, 4) - zeros).astype(F)
    return scales * (bits_of(reader.take((m + 1) // 2), m, 4) - 7).astype(F)  # int4


def read_positions(reader, kind, k, size):
    if kind == "elias-fano":
        low = (4096 // k).bit_length() - 1
        lows = bits_of(reader.take(-(-k * low // 8)), k, low)
        high_bits = k + (4096 >> low)
        highs = np.flatnonzero(bits_of(reader.take(-(-high_bits // 8)), high_bits)) - np.arange(k)
        return (highs << low) + lows
    if kind == "rice":
        low, bits = ((1971 - k // 4) // k).bit_length(), iter(bits_of(reader.take(size), 8 * size).tolist())
        positions, position = [], -1
        for _ in range(k):
            skipped = 0
            while next(bits):
                skipped += 1 << low
            position += 1 + skipped + sum(next(bits) << i for i in range(low))
            positions.append(position)
        return np.array(positions)
    if kind == "packed-12":
        return bits_of(reader.take(-(-12 * k // 8)), k, 12)
    if kind == "bitmap":
        return np.flatnonzero(bits_of(reader.take(512), 4096))
    return np.frombuffer(reader.take(4 * k), "<u4")


def rice_fewest(k):
    return -(-k * (((1971 - k // 4) // k).bit_length() + 1) // 8)


def decode(data, spec, elements):
    """(positions, values) of what an encoding keeps."""
    name, rest = spec.split(":", 1)
    parts = rest.split(",")
    options = dict(part.split("=", 1) for part in parts if "=" in part)
    kind = options.get("value", parts[0])
    reader, n = Reader(data), elements // CHUNK
    varies = name == "threshold" or options.get("skip-zeros") == "yes"
    counts = reader.table(n) if varies else np.full(n, CHUNK if name == "dense" else int(options["k"]))
    sizes = reader.table(n) if options.get("index") == "rice" else np.zeros(n, int)
    positions, values = [np.empty(0, int)], [np.empty(0, F)]
    for chunk, (k, size) in enumerate(zip(counts.tolist(), sizes.tolist())):
        if not k:
            continue
        if name == "dense":
            index = np.arange(CHUNK)
        else:
            index = read_positions(reader, options["index"], k, size + rice_fewest(k))
        positions.append(index + CHUNK * chunk)
        values.append(read_values(reader, kind, k, options))
    return np.concatenate(positions), np.concatenate(values)


def read_payload(data):
    """(segment, elements, spec, encoding) of each segment."""
    magic, version, codecs, _, count = struct.unpack_from("<4sHBBI", data)
    if (magic, version) != (b"CWPL", 1):
        sys.exit("not a payload")
    reader = Reader(data)
    reader.take(12)
    specs = [reader.take(reader.number(1)).decode() for _ in range(codecs)]
    directory = [struct.unpack("<IIB3xI", reader.take(16)) for _ in range(count)]
    return [(segment, elements, specs[codec], reader.take(size)) for segment, elements, codec, size in directory]


# ---- States ----

def read_safetensors(file):
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__")
    if "causeway.header" in metadata or "causeway.format" in metadata:
        digits = metadata["causeway.header"].encode()
        if hashlib.sha256(data[:8 + size].replace(digits, b"0" * 64, 1)).hexdigest().encode() != digits:
            sys.exit(f"{file} is damaged: its header is not what its hash says")
    for name, tensor in header.items():
        begin, end = (8 + size + offset for offset in tensor["data_offsets"])
        kind = "tree" if f"causeway.tree.{name}" in metadata else "sha256"  # as earlier versions wrote
        found = root(data[begin:end]) if kind == "tree" else hashlib.sha256(data[begin:end]).digest()
        if found.hex() != metadata[f"causeway.{kind}.{name}"]:
            sys.exit(f"{file} is damaged: tensor {name} is not what its hash says")
    return metadata, {name: np.frombuffer(data[8 + size:], F, *(lambda a, b: ((b - a) // 4, a))(*tensor["data_offsets"])).copy()
                      for name, tensor in header.items()}


def segments_of(tensors):
    """(offset, elements, kind) of each, from the metadata `tensors`."""
    matrices, packed = [], {"vector": 0, "average": 0, "lowest": 0}
    for line in tensors.splitlines():
        name, *extents = line.split(" ")
        elements, prefix = int(np.prod([int(extent) for extent in extents])), name.split(":")[0]
        if ":" in name and prefix in ("average", "lowest"):
            packed[prefix] += elements
        elif len(extents) >= 2:
            matrices.append((-(-elements // CHUNK) * CHUNK, "matrix"))
        else:
            packed["vector"] += elements
    segments, begin = [], 0
    for run, kind in matrices + [(-(-elements // CHUNK) * CHUNK, kind) for kind, elements in packed.items()]:
        for offset in range(0, run, SEGMENT_MAX):
            segments.append((begin + offset, min(SEGMENT_MAX, run - offset), kind))
        begin += run
    return segments


def root(data):
    level = [hashlib.sha256(b"\0" + data[i:i + 4 * CHUNK]).digest() for i in range(0, len(data), 4 * CHUNK)]
    while len(level) > 1:
        pairs = [hashlib.sha256(b"\1" + a + b).digest() for a, b in zip(level[::2], level[1::2])]
        level = pairs + level[len(level) // 2 * 2:]
    return level[0] if level else hashlib.sha256().digest()


def digest(anchor, momentum):
    return hashlib.sha256(root(anchor.tobytes()) + root(momentum.tobytes())).digest()


def outer_step(config, record, round, d, a, m):
    """New anchor and momentum of the elements whose sum is d."""
    outer = config["outer"]
    eta = F(outer["lr"])
    mu = np.array([get(record, 10)], np.uint32).view(F)[0] if 10 in record else F(outer["momentum"])
    kind = outer["optimizer"]
    if kind == "sgd" or kind == "nesterov" and get(record, 7):
        return a - eta * d, m
    if kind == "nesterov":
        m = mu * m + d
        return a - eta * (d + mu * m), m
    delay, turn = outer["delay"], round // config["sync"]["fragments"]
    p = d / F(delay)
    m = (mu if turn % delay == 0 else F(1)) * m + p
    return a - eta * (p + (mu if turn % delay == delay - 1 else F(0)) * m), m


def terms_of(record):
    """(weight, BlobId, decides) of each payload that is added up, in order; one that decides counts in `lowest:` tensors."""
    if 18 in record:  # a sharded round: its regions have added up the contributions already
        return [(F(1), fields(blob), True) for blob in record[18]]
    participants = [fields(participant) for participant in record.get(3, [])]
    whole = [place for place, one in enumerate(participants) if get(one, 6) == get(record, 2) and not get(one, 7)]
    weights = [np.array([get(one, 2)], np.uint32).view(F)[0] for one in participants]
    return [(weights[place], fields(get(one, 5)), whole[:1] == [place]) for place, one in enumerate(participants)]


def apply(config, segments, record, payloads, anchor, momentum):
    sums, held = {}, {}
    weights = []
    for (weight, _, decides), payload in zip(terms_of(record), payloads):
        weights.append(weight)
        for segment, elements, spec, encoding in read_payload(payload):
            positions, values = decode(encoding, spec, elements)
            total = sums.setdefault(segment, np.zeros(segments[segment][1], F))
            if segments[segment][2] != "lowest":
                total[positions] += weight * values
                held.setdefault(segment, np.zeros(segments[segment][1], F))[positions] += weight
            elif decides:
                total[positions] += values
    if not all(map(read_payload, payloads)) or not payloads:  # nobody was listed, or nobody's payload of a shard could be decoded
        if config["sync"]["fragments"] > 1:
            sys.exit("a round that lacks payloads does not say which fragment is its own; this example cannot go on")
        for segment, (_, elements, _) in enumerate(segments):
            sums.setdefault(segment, np.zeros(elements, F))
    for segment, total in sums.items():
        offset, elements, kind = segments[segment]
        part = slice(offset, offset + elements)
        if kind in ("average", "lowest"):
            anchor[part] -= total
            continue
        if config["outer"].get("mean") == "senders" and 18 not in record and segment in held and max(weights) > 0:
            all_weights = F(0)
            for weight in weights:
                all_weights += weight
            total *= all_weights / np.maximum(held[segment], max(weights))
        anchor[part], momentum[part] = outer_step(config, record, get(record, 2), total, anchor[part], momentum[part])


def read_payload_file(directory, blob):
    name = f"{get(blob, 1).hex()}-{get(blob, 2)}"
    for place in ("archive", "spool"):
        file = directory / place / name
        if file.exists():
            data = file.read_bytes()
            if root(data) == get(blob, 1):
                return data
    sys.exit(f"payload {name} is missing or damaged")


def main(directory, certificates=None):
    directory = pathlib.Path(directory)
    entries = read_ledger(directory)
    records = read_records(entries)
    last = None
    if certificates:
        name = directory.resolve().name
        last = check_signatures(directory, entries, public_key(pathlib.Path(certificates) / f"{name}.crt"))
        print(f"{len(entries)} entries, all signed by {name}")
    config = tomllib.loads((directory / "archive/config.toml").read_text())
    start = min(directory.glob("archive/state-*.safetensors"), key=lambda file: int(file.stem.split("-")[1]))
    metadata, state = read_safetensors(start)
    anchor, momentum, segments = state["anchor"], state["momentum"], segments_of(metadata["tensors"])
    assert hashlib.sha256(metadata["tensors"].encode()).hexdigest() == metadata["layout"]
    for version in range(int(metadata["version"]), len(records) + 1):
        computed = digest(anchor, momentum)
        known = get(records[version], 4) if version < len(records) else last[1] if last and last[0] == version else None
        verdict = "not signed" if known is None else "as in the ledger" if known == computed else "NOT the one in the ledger"
        print(version, computed.hex(), verdict)
        if known not in (None, computed):
            return 1
        if version < len(records):
            payloads = [read_payload_file(directory, blob) for _, blob, _ in terms_of(records[version])]
            apply(config, segments, records[version], payloads, anchor, momentum)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
