"""Every byte that is trusted has a guard: one bit of each range of each file of a real region is flipped, and `causeway verify` names it."""
import json
import random
import sys
import unittest

from harness import REGIONS, EndToEnd

# Of which nothing is believed (docs/security.md, "Disks"), by their beginnings.
UNTRUSTED = ("events.jsonl", "compression.jsonl", "listening_port", "coordinator.log", "worker-", "tensorboard/", "ledger/lock",
             "archive/config.toml")  # that one gives other states, which are signed, or the same


def lines_of(data):
    """(name, begin, end) of each line, its newline included."""
    begin = 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        yield f"line {number}", begin, begin + len(line)
        begin += len(line)


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def entries_of(data):
    """Of the first and the last entry of ledger/records: its length, and each field's tag and content."""
    starts, at = [], 0
    while at < len(data):
        starts.append(at)
        at += 4 + int.from_bytes(data[at:at + 4], "little")
    for start in (starts[0], starts[-1]):
        yield f"length of the entry at {start}", start, start + 4
        at, end = start + 4, start + 4 + int.from_bytes(data[start:start + 4], "little")
        while at < end:
            tag, content = varint(data, at)
            size, begin = varint(data, content)
            if tag % 8 == 0:  # a number, not a length
                size, begin = begin - content, content
            yield f"tag of field {tag // 8} at {start}", at, begin if tag % 8 else content
            yield f"field {tag // 8} at {start}", begin, begin + size
            at = begin + size


def safetensors_of(data):
    size = 8 + int.from_bytes(data[:8], "little")
    yield "length of the header", 0, 8
    header = data[8:size]
    for key in json.loads(header)["__metadata__"]:
        begin = 8 + header.index(f'"{key}":'.encode())
        yield f"key {key}", begin + 1, begin + 1 + len(key)
        yield f"value of {key}", begin + len(key) + 4, begin + len(key) + 5
    yield "padding of the header", size - 1, size
    for name, tensor in json.loads(header).items():
        if name == "__metadata__":
            continue
        begin = 8 + header.index(f'"{name}":{{'.encode())
        yield f"description of {name}", begin, begin + len(name) + 10
        begin, end = tensor["data_offsets"]
        if end > begin:
            yield f"tensor {name}", size + begin, size + end


def some(ranges, chance, count=12):
    """Of many ranges with one guard; Safetensors.FindsEveryFlippedBit and CheckedFile.* take them all."""
    ranges = list(ranges)
    return chance.sample(ranges, min(count, len(ranges)))


def ranges_of(name, data, chance):
    if name == "ledger/records":
        return entries_of(data)
    if name in ("ledger/run", "ledger/incarnation"):
        return lines_of(data)
    if name.endswith(".json"):
        return some(lines_of(data), chance)
    if name.startswith("ledger/"):
        return [("magic", 0, 4), ("checksum", 4, 12), ("content", 12, len(data))]
    if name.endswith(".safetensors"):
        ranges = list(safetensors_of(data))
        return ranges[:1] + some(ranges[1:], chance) + ranges[-1:]
    return [("content", 0, len(data))]


class Guards(EndToEnd):
    def test_a_flipped_bit_in_any_range_of_any_file_is_named(self):
        self.simulate(self.config(steps=10), "--set", "ledger.keep=all")
        sound = self.run_causeway("verify", self.out)
        self.assertIn("verified: one history", sound)
        region, chance = self.out / "regions" / REGIONS[1], random.Random(7)
        files = {str(path.relative_to(region)): path for path in sorted(region.rglob("*")) if path.is_file() and path.stat().st_size}
        trusted = {name: path for name, path in files.items() if not name.startswith(UNTRUSTED)}
        kinds = {name.split("/")[0] if name.startswith(("spool/", "archive/")) else name for name in trusted}
        self.assertLessEqual({"ledger/records", "ledger/raft", "ledger/run", "ledger/incarnation", "ledger/finished", "ledger/snapshot",
                              "ledger/contributions", "spool", "archive", "checkpoints/state.safetensors", "result.json",
                              "checkpoints/snapshot.safetensors", "checkpoints/final/model.safetensors",
                              "checkpoints/final/config.json", "status.json"}, kinds)
        unseen = []
        for name, path in trusted.items():
            data = path.read_bytes()
            for what, begin, end in ranges_of(name, data, chance):
                bit = chance.randrange(8 * begin, 8 * end)
                flipped = bytearray(data)
                flipped[bit // 8] ^= 1 << bit % 8
                path.unlink()  # another name may share the file
                path.write_bytes(flipped)
                child = self.start("verify", self.out)
                child.wait()
                said = child.log.read_text(errors="replace")
                new = set(said.splitlines()) - set(sound.splitlines())
                named = [line for line in new if not line.startswith("  ") and (path.name in line or REGIONS[1] in line)]
                if child.returncode != 4 or not named:
                    unseen.append((name, what, bit, child.returncode, said[-300:]))
            path.write_bytes(data)
        self.assertFalse(unseen, "\n".join(map(str, unseen)))
        self.assertIn("verified: one history", self.run_causeway("verify", self.out))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
