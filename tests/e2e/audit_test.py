"""A run that keeps everything is computed again: by the program, and by the example that was written from the documents alone."""
import os
import pathlib
import re
import signal
import sys
import unittest

from harness import DENSE, REGIONS, SPARSE, EndToEnd, wait_until
from run_by_hand import RunByHand

try:
    import numpy
except ImportError:
    numpy = None

ROUND = re.compile(r"^(\d+) ([0-9a-f]{64}) as in the ledger$", re.MULTILINE)


class Audit(EndToEnd):
    def run_that_keeps_everything(self, *more, steps=30, **settings):
        overrides = [word for setting in ("ledger.keep=all", *more) for word in ("--set", setting)]
        self.simulate(self.config(steps=steps, **settings), *overrides)
        return self.out / "regions" / REGIONS[1]

    def example(self, region):
        program = pathlib.Path(os.environ["CAUSEWAY_SOURCE"]) / "examples" / "audit" / "audit.py"
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
        self.assertIn("another one was signed by", output)
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
