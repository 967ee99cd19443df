"""Every byte that is trusted has a guard: one bit of each range of each file of a real region is flipped, and `causeway verify` names it."""
import json
import random
import re
import shutil
import sys
import unittest

from harness import REGIONS, EndToEnd

# Of which nothing is believed (docs/security.md, "Disks"), by their beginnings.
UNTRUSTED = ("events.jsonl", "compression.jsonl", "listening_port", "coordinator.log", "worker-", "tensorboard/", "ledger/lock",
             "report.html", "status.json.reserve",
             "settings.txt",  # checked by the coordinator that reads it, at its start
             "archive/config.toml",  # gives other states, which are signed, or the same
             "data-digests")  # not part of the run; DataReadingTest flips it


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


def cut(data):
    """ledger/records, entry by entry."""
    entries, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at:at + 4], "little")
        entries.append(data[at:end])
        at = end
    return entries


def fields_of(entry):
    """(number, begin, begin of its content, end) of each field."""
    at = 4
    while at < len(entry):
        tag, content = varint(entry, at)
        size, begin = varint(entry, content)
        if tag % 8 == 0:  # a number, not a length
            size, begin = begin - content, content
        yield tag // 8, at, begin, begin + size
        at = begin + size


def entries_of(data):
    """Of the first and the last entry: its length, and each field's tag and content."""
    entries = cut(data)
    for start, entry in ((0, entries[0]), (len(data) - len(entries[-1]), entries[-1])):
        yield f"length of the entry at {start}", start, start + 4
        for number, at, begin, end in fields_of(entry):
            yield f"tag of field {number} at {start}", start + at, start + begin
            yield f"field {number} at {start}", start + begin, start + end


def without_own_states(data):
    changed = b""
    for entry in cut(data):
        body = b"".join(entry[begin:end] for number, begin, _, end in fields_of(entry) if number < 4)
        changed += len(body).to_bytes(4, "little") + body
    return changed


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
    if name in ("ledger/run", "ledger/incarnation", "ledger/checked-signatures"):
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
        kinds = {re.sub(r"^(spool|archive)/.*|^(checkpoints/outer)-.*", r"\1\2", name) for name in trusted}
        self.assertLessEqual({"ledger/records", "ledger/raft", "ledger/run", "ledger/incarnation", "ledger/finished", "ledger/snapshot",
                              "ledger/contributions", "spool", "archive", "checkpoints/state.safetensors", "checkpoints/outer", "result.json",
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

    def refused(self, change, *lines):
        """`verify` of a copy of the run after `change` says these lines and does not verify it."""
        copy = self.directory / "changed"
        shutil.copytree(self.out, copy, ignore=lambda _, names: [name for name in names if name.endswith(".sock")])
        change(copy)
        output = self.run_causeway("verify", copy, code=4)
        for line in lines:
            self.assertIn(line, output)
        self.assertRegex(output, "NOT (verified|the same history)")
        shutil.rmtree(copy)

    @staticmethod
    def rewrite(file, change):
        content = change(file.read_bytes())
        file.unlink()  # another name may share it
        file.write_bytes(content)

    def test_what_contradicts_or_is_missing_has_a_line_and_another_exit_code(self):
        self.simulate(self.config(steps=10))
        self.assertIn("verified: one history", self.run_causeway("verify", self.out))
        first, second = REGIONS[:2]

        def drop_newest(copy):
            for region in REGIONS:
                self.rewrite(copy / "regions" / region / "ledger/records", lambda data: b"".join(cut(data)[:-1]))

        self.refused(drop_newest, f"{first}: its ledger/finished says that it ended at version 2, but its ledger ends at version 1",
                     f"{second}: its snapshot is of version 2", f"{second}: its model is of version 2", "NOT the same history")
        self.refused(lambda copy: self.rewrite(copy / "checkpoints/final/config.json", lambda data: data.replace(b"}", b" }", 1)),
                     "checkpoints/final/config.json is not the one that was written with the weights",
                     "checkpoints/final/config.json is not that of any region")
        self.refused(lambda copy: self.rewrite(copy / "checkpoints/final/model.safetensors", lambda data: data[:-1] + bytes([data[-1] ^ 1])),
                     "model.safetensors is damaged: tensor")
        self.refused(lambda copy: (copy / "checkpoints/final/model-00002.safetensors").write_bytes(b"weights"),
                     "checkpoints/final/model-00002.safetensors is not that of any region")
        self.refused(lambda copy: shutil.rmtree(copy / "regions" / first), f"MISSING: the directory of {first}, a member", "NOT verified")
        self.refused(lambda copy: shutil.copyfile(copy / "regions" / second / "ledger/finished", copy / "regions" / first / "ledger/finished"),
                     f"{first}: its ledger/finished, of version 2, is not signed by its certificate")
        self.refused(lambda copy: (copy / "regions" / first / "ledger/finished").unlink(),
                     f"MISSING: {first} signed no state of version 2, the last")
        self.refused(lambda copy: self.rewrite(copy / "regions" / first / "ledger/records", without_own_states),
                     f"MISSING: {first} signed none of the 2 states that records say it contributed from")
        self.refused(lambda copy: shutil.rmtree(copy / "certificates"), "MISSING: signatures are not checked")
        self.refused(lambda copy: shutil.rmtree(copy / "regions" / first / "checkpoints/final"), f"{first} finished, and others have their model")
        self.refused(lambda copy: shutil.rmtree(copy / "checkpoints/final"), "the run is over, and its copy of the model is gone", "NOT verified")
        self.refused(lambda copy: self.dangle(copy / "checkpoints/final"), "the run is over, and its copy of the model is gone", "NOT verified")

    @staticmethod
    def dangle(directory):
        shutil.rmtree(directory)
        directory.symlink_to("nowhere")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
