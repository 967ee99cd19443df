"""Runs whose rounds are sharded (docs/sharded-rounds.md): real processes, real TLS."""
import json
import os
import signal
import unittest

from harness import DENSE, REGIONS, EndToEnd, processes, wait_until

NAMES = (*REGIONS, "sa-east", "af-south")


class Sharded(EndToEnd):
    @staticmethod
    def make_wan():
        names = ", ".join(f'"{name}"' for name in NAMES)
        return f'name = "e2e"\nseed = 1\nregions = [{names}]\n[defaults]\nrtt_ms = 8\nrate_mbit_s = 200\n'

    def of_five(self, **settings):
        config = self.config(workers=(1, 1, 1), **{**DENSE, **settings})
        with open(config, "a") as file:
            for name in NAMES[3:]:
                file.write(f'[[regions]]\nname = "{name}"\n')
        return config

    def train(self, *more, name="run", **settings):
        self.out = self.directory / name
        summary = self.simulate(self.of_five(**settings), "--no-baseline", *more)
        self.assert_identical(summary)
        return summary

    def records(self, region=REGIONS[0]):
        told = json.loads(self.run_causeway("ledger", "--json", self.out / "regions" / region))
        return [entry for entry in told["entries"] if "contributions" in entry]

    def sent_per_region(self, summary):
        return sum(region["wan_tx_bytes"] for region in summary["regions"]) / len(NAMES)

    def test_all_regions_end_with_the_same_bits_and_nearly_the_loss_of_a_full_exchange_at_fewer_bytes(self):
        full = self.train(name="full", steps=120, k=10)
        sharded = self.train(exchange="sharded", name="sharded", steps=120, k=10)
        self.assertTrue(all(record["sums"] for record in self.records()))
        self.assertLess(sharded["val_loss"], 4)  # of random bytes: 5.5
        self.assertAlmostEqual(sharded["val_loss"], full["val_loss"], delta=0.02 * full["val_loss"])
        self.assertLess(self.sent_per_region(sharded), 0.8 * self.sent_per_region(full))

    def test_exact_payloads_give_the_bits_of_a_full_exchange(self):
        digests = set()
        for exchange in ("full", "sharded"):
            summary = self.train("--set", 'codec.vector="dense:fp32"', "--set", "sync.grace_min_s=100",
                                 "--set", "sync.grace_max_s=100", exchange=exchange, name=exchange, steps=30, k=10, codec="dense:fp32")
            digests.add(summary["regions"][0]["params_digest"])
            self.assertEqual([len(record["contributions"]) for record in self.records()], [5] * 3)
        self.assertEqual(len(digests), 1)

    def test_a_region_that_is_killed_is_done_without_and_comes_back(self):
        self.simulate_through_a_kill(self.of_five(steps=400, exchange="sharded"))

    def test_a_region_that_hangs_is_replaced_as_a_summer(self):
        child = self.start("simulate", self.of_five(steps=3000, exchange="sharded"), "--out", self.out, "--no-baseline")
        wait_until(lambda: self.status("us-east").get("version", 0) >= 3, "three rounds", child)
        leader = wait_until(lambda: self.status("us-east").get("leader"), "a leader", child)
        hit = next(name for name in NAMES if name != leader)
        stopped = processes(str(self.out / "regions" / hit))
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        version = self.status(leader)["version"]
        wait_until(lambda: self.status(leader)["version"] >= version + 5, "rounds without it", child)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        wait_until(lambda: self.status(hit).get("version", 0) >= version + 5, "its return", child)
        child.send_signal(signal.SIGINT)
        self.finish(child, code=130)

    def test_automatic_is_sharded_from_the_second_round_on(self):
        self.train(exchange="auto", steps=40, k=10)
        self.assertEqual([bool(record.get("sums")) for record in self.records()], [False, True, True, True])

    def test_a_run_that_keeps_everything_is_verified_and_computed_again(self):
        self.train("--set", 'ledger.keep="all"', exchange="sharded", steps=40, k=10)
        self.assertIn("replayed: the ledger's states", self.run_causeway("replay", self.out / "regions" / "eu-west"))
        said = self.run_causeway("verify", self.out)
        self.assertIn("payloads", said)
        said = self.run_causeway("replay", self.out / "regions" / "eu-west", "--without", "us-east@1", code=2)
        self.assertIn("round 1 was sharded", said)

    def test_what_needs_every_payload_is_refused(self):
        said = self.run_causeway("simulate", self.of_five(exchange="sharded"), "--out", self.out, "--set", 'sync.variant="eager"', "--set", "sync.overlap_steps=2", code=2)
        self.assertIn("sync.exchange", said)
        self.assertIn("eager", said)


if __name__ == "__main__":
    unittest.main()
