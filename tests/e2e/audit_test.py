"""A run that keeps everything is computed again: by the program, and by the example that was written from the documents alone."""
import hashlib
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

from harness import DENSE, REGIONS, SPARSE, EndToEnd, wait_until
from run_by_hand import RunByHand

try:
    import numpy
except ImportError:
    numpy = None

SOURCE = pathlib.Path(os.environ["CAUSEWAY_SOURCE"])
CHUNK = 4096
ROUND = re.compile(r"^(\d+) ([0-9a-f]{64}) as in the ledger$", re.MULTILINE)


def message(*fields):
    """Of Protocol Buffers: (number, value) of integers, bytes, and fp32 as fixed32."""
    def varint(value):
        low = b""
        while value >= 128:
            low += bytes([value & 127 | 128])
            value >>= 7
        return low + bytes([value])

    written = b""
    for number, value in fields:
        if isinstance(value, int):
            written += varint(8 * number) + varint(value)
        elif isinstance(value, bytes):
            written += varint(8 * number + 2) + varint(len(value)) + value
        else:
            written += varint(8 * number + 5) + value.tobytes()
    return written


class Audit(EndToEnd):
    def run_that_keeps_everything(self, *more, steps=30, **settings):
        overrides = [word for setting in ("ledger.keep=all", *more) for word in ("--set", setting)]
        self.simulate(self.config(steps=steps, **settings), *overrides)
        return self.out / "regions" / REGIONS[1]

    def example(self, region):
        program = SOURCE / "examples" / "audit" / "audit.py"
        return self.finish(self.start_program(sys.executable, program, region, self.out / "certificates"))

    def assert_example_agrees(self, *more, versions=6, **settings):
        region = self.run_that_keeps_everything(*more, **settings)
        states = dict(ROUND.findall(self.example(region)))
        self.assertEqual(list(states), [str(version) for version in range(versions + 1)])
        self.assertIn(f"version {versions} has state {states[str(versions)]}, signed by",
                      self.run_causeway("replay", self.out))

    @unittest.skipIf(numpy is None, "needs numpy")
    def test_the_example_computes_the_states_of_a_dense_run(self):
        self.assert_example_agrees(**DENSE)

    @unittest.skipIf(numpy is None, "needs numpy")
    def test_the_example_computes_the_states_of_a_sharded_run(self):
        self.assert_example_agrees(exchange="sharded", **DENSE)

    @unittest.skipIf(numpy is None, "needs numpy")
    def test_the_example_computes_the_states_of_a_sparse_run(self):
        self.assert_example_agrees(**SPARSE)

    @unittest.skipIf(numpy is None, "needs numpy")
    def test_the_example_computes_the_states_of_a_run_by_senders(self):
        self.assert_example_agrees("outer.mean=senders", "codec.feedback_decay=0.95", **SPARSE)

    @unittest.skipIf(numpy is None, "needs numpy")
    def test_the_example_computes_the_states_of_a_run_in_fragments(self):
        self.assert_example_agrees(
            "sync.variant=streaming", "sync.fragments=2", "outer.delay=3", "codec.vector=dense:bf16", k=6, versions=11,
            codec="threshold:t=1.5,value=1bit,block=64,index=rice", optimizer="delayed_nesterov", outer_lr=0.6)

    @unittest.skipIf(numpy is None, "needs numpy")
    def test_the_example_computes_the_states_of_a_run_with_four_bits(self):
        self.assert_example_agrees(codec="topk:k=50,value=int4,block=16,index=raw", optimizer="sgd", outer_lr=1.0)

    def test_replay_writes_models_and_compares_weightings(self):
        self.run_that_keeps_everything()
        again = self.directory / "again"
        self.run_causeway("replay", self.out, "--model", again)
        self.assertEqual((again / "model.safetensors").read_bytes(),
                         (self.out / "checkpoints" / "final" / "model.safetensors").read_bytes())
        changed = self.directory / "changed"
        output = self.run_causeway("replay", self.out, "--without", f"{REGIONS[0]}@2", "--loss", "--model", changed)
        self.assertIn("the cosine of the two moves", output)
        self.assertIn("validation loss", output)
        self.assertNotEqual((again / "model.safetensors").read_bytes(), (changed / "model.safetensors").read_bytes())
        self.assertIn("round 2 does not list nobody-there", self.run_causeway(
            "replay", self.out, "--without", "nobody-there@2", code=2))

    def test_replay_names_the_first_difference(self):
        self.run_that_keeps_everything(steps=5)  # one round: its snapshot has the numbers
        output = self.run_causeway("replay", self.out, "--set", "outer.lr=0.5", code=4)
        self.assertIn("the first difference is in round 0", output)
        self.assertIn("another state was signed by", output)
        self.assertRegex(output, r"differs first in anchor, transformer\.wte\.weight, element \d+: ")
        self.assertIn("NOT the ledger's states", output)

    def test_replay_says_which_payload_is_damaged_or_missing(self):
        region = self.run_that_keeps_everything()
        (payload, *_) = sorted((region / "archive").glob("*-[0-9]*[0-9]"))
        content = bytearray(payload.read_bytes())
        content[-1] ^= 1
        payload.unlink()  # others may share the file
        payload.write_bytes(content)
        self.assertIn("is damaged", self.run_causeway("replay", region, code=4))
        self.assertIn("replayed: the ledger's states", self.run_causeway("replay", self.out))  # another region has it
        self.assertIn("another copy is good", self.run_causeway("verify", self.out, code=4))
        payload.unlink()
        self.assertIn("give the directories of other regions as well", self.run_causeway("replay", region, code=4))

    def test_files_that_were_cut_short_are_said_to_be_damaged(self):
        region = self.run_that_keeps_everything(steps=10)
        config, result = region / "archive" / "config.toml", region / "result.json"
        for text in (config.read_text()[:config.stat().st_size // 2], ""):
            config.write_text(text)
            said = self.run_causeway("replay", region, code=4)
            self.assertIn("config.toml is missing or damaged", said)
            self.assertIn("of another region", said)
        config.unlink()
        self.assertIn("config.toml is missing or damaged", self.run_causeway("replay", region, code=4))
        for text in (result.read_text()[:result.stat().st_size // 2], ""):
            result.write_text(text)
            self.assertIn("its result.json is damaged: it is no whole JSON object", self.run_causeway("verify", self.out, code=4))

    def test_a_run_that_kept_nothing_is_refused_with_what_to_set(self):
        self.simulate(self.config(steps=10))
        self.assertIn('set ledger.keep = "all"', self.run_causeway("replay", self.out, code=4))

    def test_what_was_decided_is_told_in_words(self):
        region = self.run_that_keeps_everything(steps=10)
        told = self.run_causeway("ledger", self.out)
        self.assertIn("a new leader was elected", told)
        self.assertIn(f"{REGIONS[0]} (votes)", told)
        self.assertIn("round 1: ap-northeast 0.333333, eu-west 0.333333, us-east 0.333333", told)
        self.assertIn("steps, waits for the last regions up to", self.run_causeway("ledger", region, "--round", "1"))
        self.assertIn("the ledger has rounds 0 to 1", self.run_causeway("ledger", region, "--round", "2", code=2))
        self.assertIn("--version requires --model", self.run_causeway("replay", region, "--version", "1", code=2))
        self.assertIn("say with --without or --weight what is changed", self.run_causeway("replay", region, "--loss", code=2))
        for flags in (["ledger", region, "--round"], ["replay", region, "--from"], ["replay", region, "--to"], ["replay", region, "--version"]):
            for number in ("-1", "99999999999999999999"):
                self.assertIn(f"{flags[-1]}: {number}: must be a number from 0", self.run_causeway(*flags, number, code=2))


@unittest.skipIf(numpy is None, "needs numpy")
class ShardedRound(unittest.TestCase):
    """A run made by hand: one sharded round, whose record lists a region and two sums."""

    def setUp(self):
        sys.path.insert(0, str(SOURCE / "examples" / "audit"))
        import audit
        self.audit = audit
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("ledger", "archive"):
            (self.directory / name).mkdir()
        (self.directory / "archive" / "config.toml").write_text('[outer]\noptimizer = "sgd"\nlr = 0.5\nmomentum = 0.9\n'
                                                                "[sync]\nfragments = 1\n")

    def keep(self, *segments):
        """A payload of (number, value of all its elements) as dense:fp32; its BlobId."""
        spec = b"dense:fp32"
        encodings = [numpy.full(CHUNK, value, "<f4").tobytes() for _, value in segments]
        data = struct.pack("<4sHBBIB", b"CWPL", 1, 1, 0, len(segments), len(spec)) + spec
        for (number, _), encoding in zip(segments, encodings):
            data += struct.pack("<IIB3xI", number, CHUNK, 0, len(encoding))
        data += b"".join(encodings)
        hash = self.audit.root(data)
        (self.directory / "archive" / f"{hash.hex()}-{len(data)}").write_bytes(data)
        return message((1, hash), (2, len(data)))

    def state(self, *values):
        """Of a matrix, a vector and a `lowest:` tensor, each of one value."""
        return numpy.repeat(numpy.array(values, "<f4"), CHUNK)

    def begin_with(self, anchor):
        tensors = "embedding 64 64\nnorm 4096\nlowest:count 4096\n"
        metadata = {"version": "0", "tensors": tensors, "layout": hashlib.sha256(tensors.encode()).hexdigest()}
        header, data = {"__metadata__": metadata}, b""
        for name, values in (("anchor", anchor), ("momentum", numpy.zeros_like(anchor))):
            content = values.tobytes()
            metadata[f"causeway.sha256.{name}"] = hashlib.sha256(content).hexdigest()
            header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [len(data), len(data) + len(content)]}
            data += content
        text = json.dumps(header).encode()
        (self.directory / "archive" / "state-0.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)

    def write_ledger(self, *records):
        run_id = "0" * 32
        (self.directory / "ledger" / "run").write_text(f"{run_id}\nformat 1\n")
        head, written = hashlib.sha256(run_id.encode()).digest(), b""
        for record in records:
            entry = message((1, 1), (2, record))
            head = hashlib.sha256(head + entry).digest()
            line = message((1, entry), (2, head))
            written += struct.pack("<I", len(line)) + line
        (self.directory / "ledger" / "records").write_bytes(written)

    def told_of(self, after):
        """What the example says of the run whose second record names the state `after`."""
        before = self.state(1, 2, 3)
        self.begin_with(before)
        digest = lambda anchor: self.audit.digest(anchor, numpy.zeros_like(anchor))
        nothing = message((1, bytes(32)), (2, 1))  # what the region sent is kept by nobody
        listed = message((1, b"east"), (2, numpy.float32(0.25)), (5, nothing), (10, bytes(32)))
        sums = [(18, self.keep((0, 0.5))), (18, self.keep((1, 4), (2, 7)))]
        self.write_ledger(message((3, listed), (4, digest(before)), *sums), message((2, 1), (4, digest(after))))
        program = SOURCE / "examples" / "audit" / "audit.py"
        return subprocess.run([sys.executable, program, self.directory], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout

    def test_the_example_applies_the_sums_alone_each_with_weight_1(self):
        told = self.told_of(self.state(1 - 0.5 * 0.5, 2 - 0.5 * 4, 3 - 7))
        self.assertEqual([len(told.splitlines()), told.count(" as in the ledger\n")], [3, 2], told)
        self.assertIn("NOT the one in the ledger", self.told_of(self.state(1 - 0.25 * 0.5 * 0.5, 2 - 0.5 * 4, 3 - 7)))


class Away(RunByHand):
    def kept(self, region):
        return {path.name for place in ("archive", "spool") for path in (self.region_directory(region) / place).glob("*-[0-9]*[0-9]")}

    def test_a_region_that_joined_late_fetches_what_it_was_not_there_for(self):
        config = self.config(addresses=self.addresses, steps=1_000_000)
        config.write_text(config.read_text().replace("grace_min_s = 2", "grace_min_s = 0.05\ngrace_max_s = 0.5") +
                          '[ledger]\nkeep = "all"\n')
        children = [self.coordinator(config, REGIONS[0], "--found"), self.coordinator(config, REGIONS[1], "--join"),
                    self.worker(config, REGIONS[0]), self.worker(config, REGIONS[1])]
        archive = self.region_directory(REGIONS[0]) / "archive"
        wait_until(lambda: len(list(archive.glob("*-[0-9]*[0-9]"))) >= 12, "payloads that left the spool", children[0])
        missed = {path.name for path in archive.glob("*-[0-9]*[0-9]")}
        late = REGIONS[2]
        children += [self.coordinator(config, late, "--join"), self.worker(config, late)]
        wait_until(lambda: missed <= self.kept(late), "the payloads of the rounds before", children[-2])
        for child in children:
            child.send_signal(signal.SIGINT)
        for child in children:
            self.finish(child, code=130)
        self.assertIn("are here and are what the records list", self.run_causeway(
            "verify", *map(self.region_directory, REGIONS), "--certificates", "certificates"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
