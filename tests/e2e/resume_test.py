"""A run that is killed as a whole and started again ends with the bits of one that was not. CAUSEWAY_STOPS: at how many random
points; CAUSEWAY_SEED: which."""
import os
import pathlib
import random
import sys
import unittest

from harness import DENSE, REGIONS, SPARSE, EndToEnd, kill, processes, read_json, wait_until

STEPS, K = 60, 5


class Resume(EndToEnd):
    def launch(self, codec, *flags):
        # A round waits for all regions, and none believes itself cut off and trains on alone while others are still
        # being started, so that records do not depend on who was quick.
        config = self.config(workers=(1, 2, 1), steps=STEPS, k=K, **codec)
        return self.start("simulate", config, "--out", self.out, "--no-baseline", "--sample-tokens", 0,
                          "--set", "train.checkpoint_rounds=1",
                          "--set", f"sync.contributions_min={len(REGIONS)}", "--set", "sync.election_timeout_s=6", *flags)

    def digest(self, child):
        self.finish(child)
        summary = read_json(self.out / "summary.json")
        self.assert_identical(summary)
        self.assertEqual([region["steps"] for region in summary["regions"]], [STEPS] * len(REGIONS))
        return summary["regions"][0]["params_digest"]

    def kill_all(self, child):
        """The run's processes, of which the simulation is one; none can tell another."""
        ours = str(self.out)
        for _ in range(3):  # what was being started meanwhile
            found = [int(entry.name) for entry in pathlib.Path("/proc").iterdir()
                     if entry.name.isdigit() and ours in self.command_line(entry)]
            kill(found)
        child.wait()

    @staticmethod
    def command_line(entry):
        try:
            return (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            return ""

    def step(self):
        return sum(self.status(region).get("progress", {}).get("step", 0) for region in REGIONS)

    def test_muons_momentum_survives_a_kill(self):
        muon = ("--set", "inner.optimizer=muon")
        self.out = self.directory / "undisturbed"
        expected = self.digest(self.launch(DENSE, *muon))
        self.out = self.directory / "killed"
        child = self.launch(DENSE, *muon)
        wait_until(lambda: self.step() >= len(REGIONS) * STEPS // 2, "half of the steps", child)
        self.kill_all(child)
        self.assertEqual(self.digest(self.launch(DENSE, *muon, "--resume")), expected)

    def test_killed_at_random_points_it_ends_with_the_bits_of_a_run_that_was_not(self):
        seed = int(os.environ.get("CAUSEWAY_SEED", "1"))
        chance = random.Random(seed)
        points = sorted(chance.sample(range(2, len(REGIONS) * STEPS - 2), int(os.environ.get("CAUSEWAY_STOPS", "1"))))
        expected = {}
        for index, point in enumerate(points):
            name = ("sparse", "dense")[index % 2]
            codec = {"sparse": SPARSE, "dense": DENSE}[name]
            if name not in expected:
                self.out = self.directory / f"undisturbed-{name}"
                expected[name] = self.digest(self.launch(codec))
            with self.subTest(seed=seed, point=point, codec=name):
                self.out = self.directory / f"killed-{point}"
                child = self.launch(codec)
                wait_until(lambda: self.step() >= point, f"{point} steps in all", child)
                self.kill_all(child)
                digest = self.digest(self.launch(codec, "--resume"))
                print(f"killed after {point} of {len(REGIONS) * STEPS} steps, {name}: {digest[:16]}, "
                      f"undisturbed {expected[name][:16]}", flush=True)
                self.assertEqual(digest, expected[name])

    def test_data_that_changed_while_it_was_stopped_are_named_once_and_trained_on(self):
        self.out = self.directory / "changed"
        child = self.launch(DENSE)
        wait_until(lambda: self.step() >= len(REGIONS) * STEPS // 3, "a third of the steps", child)
        self.kill_all(child)
        text = self.directory / "text"
        text.write_text(text.read_text().replace("king", "cook"))
        child = self.launch(DENSE, "--resume")
        wait_until(lambda: self.step() >= len(REGIONS) * STEPS * 2 // 3, "two thirds of the steps", child)
        self.kill_all(child)
        self.digest(self.launch(DENSE, "--resume"))
        for region in REGIONS:
            told = [event["text"] for event in self.events_of(region) if event.get("event") == "other_data"]
            self.assertEqual(len(told), 1, region)
            self.assertRegex(told[0], r"or for validation, has changed: now \w{12}, before \w{12}\.")

    def test_a_file_of_data_that_is_written_to_is_named_and_read_anew(self):
        self.out = self.directory / "written-to"
        child = self.launch(DENSE, "--set", "data.mode=per-region")
        wait_until(lambda: self.step() >= len(REGIONS) * STEPS // 3, "a third of the steps", child)
        with open(self.directory / "text", "r+", encoding="utf-8") as file:
            file.write("another text " * 1000)
        self.digest(child)
        for region in REGIONS:
            told = [event["text"] for event in self.events_of(region) if event.get("event") == "other_data"]
            self.assertEqual(len(told), 1, region)
            said = (self.out / "regions" / region / "worker-0.log").read_text()
            self.assertRegex(said, r"causeway: \S*/text was written to while it was read: it has other bytes")

    def test_a_rank_that_comes_back_reads_replaced_data_together_with_the_other(self):
        self.out = self.directory / "replaced"
        child = self.launch(DENSE, "--set", "data.mode=per-region")
        wait_until(lambda: self.step() >= len(REGIONS) * STEPS // 3, "a third of the steps", child)
        other = self.directory / "other"
        other.write_text((self.directory / "text").read_text().replace("king", "cook"))
        other.rename(self.directory / "text")
        rank = processes("worker", "--rank", "1", str(self.out / "regions" / "eu-west"))
        self.assertEqual(len(rank), 1)
        kill(rank)
        self.digest(child)
        told = {region: [event for event in self.events_of(region) if event.get("event") == "other_data"] for region in REGIONS}
        self.assertEqual([len(events) for events in told.values()], [0, 1, 0], told)
        said = (self.out / "regions" / "eu-west" / "worker-0.log").read_text()
        self.assertIn("was replaced, or added to, since this worker opened it", said)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
