"""Payloads that a disk spoils in the spool while the coordinators run, and such as nobody could ever decode."""
import hashlib
import json
import os
import shutil
import signal
import sys
import unittest

from harness import DENSE, REGIONS, read_json, wait_until
from hash_tree import merkle_root
from run_by_hand import RunByHand

LYING_WORKER = os.environ["CAUSEWAY_LYING_WORKER"]


class DamagedPayload(RunByHand):
    def start_run(self):
        """Every payload and no snapshot is kept: a worker without a state begins with round 0."""
        self.config_file = self.config(addresses=self.addresses, steps=10_000_000)
        text = self.config_file.read_text().replace("checkpoint_rounds = 2", "checkpoint_rounds = 10000")
        text = text.replace("grace_min_s = 2", "grace_min_s = 0.05\ngrace_max_s = 0.5\nspool_gib = 4")
        self.config_file.write_text(text + '[ledger]\nkeep = "all"\n')
        self.coordinators = dict(zip(REGIONS, self.start_coordinators(self.config_file)))
        self.workers = {region: self.worker(self.config_file, region) for region in REGIONS}
        self.wait_for_version(3, REGIONS)

    def wait_for_version(self, version, regions):
        def there():
            ended = [region for region, child in self.coordinators.items() if child.poll() is not None]
            self.assertEqual(ended, [], "coordinators go on" + self.logs())
            return all(self.version(region) >= version for region in regions)

        try:
            wait_until(there, f"{regions} to have version {version}")
        except AssertionError as failure:
            raise AssertionError(f"{failure}{self.logs()}") from None

    def lose_worker(self, region):
        """With all that it has on disk."""
        self.workers[region].kill()
        self.workers[region].wait()
        shutil.rmtree(self.region_directory(region) / "checkpoints", ignore_errors=True)  # it may have saved none so far

    def listed(self, round):
        """A region that the round lists, and its payload. On a busy host some come late."""
        rounds = json.loads(self.run_causeway("ledger", self.region_directory(REGIONS[0]), "--round", round, "--json"))
        first = next(one for one in rounds["entries"][0]["contributions"] if one["round"] == round)
        return first["region"], first["payload"]

    def damage(self, region, payload):
        """A bit in the middle, in place."""
        file = next((self.region_directory(region) / "spool").glob(f"{payload}-*"))
        with open(file, "r+b") as stream:
            middle = file.stat().st_size // 2
            stream.seek(middle)
            byte = stream.read(1)[0]
            stream.seek(middle)
            stream.write(bytes([byte ^ 16]))
        return file

    def said(self, text):
        return any(text in child.log.read_text(errors="replace") for child in self.children)

    def interrupt_all(self):
        for child in [*self.workers.values(), *self.coordinators.values()]:
            child.send_signal(signal.SIGINT)
        for child in [*self.workers.values(), *self.coordinators.values()]:
            self.finish(child, code=130)

    def test_payloads_that_an_earlier_version_named_are_left_to_that_version(self):
        content = b"a payload"
        spool = self.region_directory(REGIONS[0]) / "spool"
        spool.mkdir(parents=True, mode=0o700)
        payload = spool / f"{hashlib.sha256(content).hexdigest()}-{len(content)}"
        payload.write_bytes(content)
        coordinator = self.coordinator(self.config(addresses=self.addresses), REGIONS[0], "--join")
        self.finish(coordinator, code=4)
        self.assertTrue(self.said(f"{payload} has its plain SHA-256 as its name"), self.logs())
        self.assertEqual(payload.read_bytes(), content)

    def test_a_damaged_copy_is_fetched_again_before_the_worker_sees_it(self):
        self.start_run()
        victim = REGIONS[2]
        self.lose_worker(victim)
        _, payload = self.listed(1)
        file = self.damage(victim, payload)
        self.workers[victim] = self.worker(self.config_file, victim)
        # First: what a region's status says may be of before.
        wait_until(lambda: self.said(f"{file} does not match its name; it is thrown away"), "the damage to be found", self.coordinators[victim])
        self.wait_for_version(self.version(REGIONS[0]) + 2, REGIONS)
        self.assertEqual(merkle_root(file.read_bytes()).hex(), payload, "it was fetched again")
        self.assertFalse(self.said("computes something else"))

    def test_what_no_region_has_is_taken_out_of_its_round(self):
        self.start_run()
        for region in REGIONS:
            self.lose_worker(region)
        contributor, payload = self.listed(1)
        for region in REGIONS:
            self.damage(region, payload)
        self.workers = {region: self.worker(self.config_file, region) for region in REGIONS}
        again = f"no region that can be reached has the payload of {contributor} in round 1 any more"
        try:
            wait_until(lambda: self.said(again), "round 1 to be decided again")
        except AssertionError as failure:
            raise AssertionError(f"{failure}{self.logs()}") from None
        self.wait_for_version(5, REGIONS)
        self.interrupt_all()
        directories = [self.region_directory(region) for region in REGIONS]
        verified = self.run_causeway("verify", *directories, "--certificates", "certificates")
        self.assertIn("round 1 was decided again", verified)
        self.assertIn("verified: one history", verified)
        self.assertIn("every state is the one in the ledger", self.run_causeway("replay", *directories))
        told = self.run_causeway("ledger", directories[0], "--round", 1)
        self.assertIn(f"round 1 again, without {contributor}", told)


class LyingPayload(RunByHand):
    """Of three regions, one contributes in two rounds what it should not."""

    def run_with(self, lie, **settings):
        config = self.config(addresses=self.addresses, steps=30, **DENSE, **settings)
        config.write_text(config.read_text() + '[ledger]\nkeep = "all"\n')
        coordinators = self.start_coordinators(config)
        workers = [self.start_program(LYING_WORKER, config, region, self.region_directory(region), *lies, env={"OMP_NUM_THREADS": "1"})
                   for region, lies in zip(REGIONS, ([], [f"{lie}@2", f"{lie}@4"], []))]
        self.finish_all(workers)
        self.finish_all(coordinators)
        results = [read_json(self.region_directory(region) / "result.json") for region in REGIONS]
        self.assertEqual({result["rounds"] for result in results}, {6})
        self.assertEqual(len({result["params_digest"] for result in results}), 1)
        self.assertLess(results[0]["val_loss"], 10)  # nats per token
        self.assertIn("every state is the one in the ledger", self.run_causeway("replay", *map(self.region_directory, REGIONS)))
        return [child.log.read_text() for child in workers], [child.log.read_text() for child in coordinators]


class Nonsense(LyingPayload):
    """Bytes with the right hash that nobody can decode."""

    def test_it_counts_as_nothing_and_all_end_alike(self):
        workers, _ = self.run_with("nonsense")
        for log in workers:
            for round in (2, 4):
                self.assertRegex(log, rf"what {REGIONS[1]} contributed to round {round} cannot be decoded: .*; it counts as 0, here and in all other regions")

    def test_in_a_sharded_round_its_own_coordinator_leaves_it_out(self):
        _, coordinators = self.run_with("nonsense", exchange="sharded")
        for round in (2, 4):
            told = f"what its worker contributed to round {round} cannot be decoded"
            self.assertEqual([told in log for log in coordinators], [region == REGIONS[1] for region in REGIONS], self.logs())


class Huge(LyingPayload):
    """Huge numbers whose norm it says is that of its steps: nobody would weigh them less."""

    TOLD = rf"what {REGIONS[1]} contributed to round %d would move the model [\d.e+]+ times as far as what most regions sent; it counts as 0"

    def test_they_count_as_nothing_and_all_go_on(self):
        workers, _ = self.run_with("huge")
        for log in workers:
            for round in (2, 4):
                self.assertRegex(log, self.TOLD % round)

    def test_in_a_sharded_round_whoever_sums_them_leaves_them_out(self):
        _, coordinators = self.run_with("huge", exchange="sharded")
        for round in (2, 4):
            self.assertRegex("".join(coordinators), "shard 0 of " + self.TOLD % round)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
