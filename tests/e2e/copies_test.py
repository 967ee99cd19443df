"""Copies of a region's directory that somebody starts: beside the region itself, or in its place."""
import shutil
import signal
import unittest

from harness import DENSE, REGIONS, free_port, read_json, wait_until
from run_by_hand import RunByHand


class Copies(RunByHand):
    def setUp(self):
        super().setUp()
        # More rounds than any of these tests has time for.
        self.run_config = self.config(addresses=self.addresses, steps=1_000_000, **DENSE)
        self.running = {region: [self.coordinator(self.run_config, region, "--auto"), self.worker(self.run_config, region)]
                        for region in REGIONS}
        self.wait_for_rounds(3)

    def wait_for_rounds(self, count):
        reached = max(map(self.version, REGIONS)) + count
        wait_until(lambda: min(map(self.version, REGIONS)) >= reached, f"version {reached}")

    def copy_of(self, region):
        """Of one moment, as a file system's snapshot is."""
        for child in self.running[region]:
            child.send_signal(signal.SIGSTOP)
        copy = self.out / "copy"
        shutil.copytree(self.region_directory(region), copy, ignore=shutil.ignore_patterns("*.sock"))
        for child in self.running[region]:
            child.send_signal(signal.SIGCONT)
        return copy

    def kill(self, children):
        for child in children:
            child.kill()
            child.wait()

    def end_with_one_history(self):
        children = [child for region in REGIONS for child in self.running[region]]
        for child in children:
            child.send_signal(signal.SIGTERM)
        for child in children:
            self.finish(child, code=130)
        self.run_causeway("verify", *map(self.region_directory, REGIONS), "--certificates", "certificates")

    def test_a_copy_that_runs_beside_its_region_stays_out_and_says_so(self):
        region = REGIONS[2]  # which dials the others
        copy = self.copy_of(region)
        second = [self.start("coordinator", self.run_config, "--region", region, "--directory", copy, "--auto",
                             "--listen", f"127.0.0.1:{free_port()}"),
                  self.start("worker", self.run_config, "--region", region, "--rank", 0, "--directory", copy)]
        waiting = lambda: read_json(copy / "status.json").get("waiting", "")
        wait_until(lambda: "two processes use the certificate of " + region in waiting(), "its word", second[0])
        self.assertIn("the other process with this region's certificate to end", waiting())
        self.wait_for_rounds(5)
        self.assertIn("two processes use the certificate of " + region, self.running[REGIONS[0]][0].log.read_text())
        self.kill(second)
        self.end_with_one_history()

    def test_a_region_that_begins_from_an_older_copy_is_caught_up_and_says_so(self):
        region = REGIONS[1]
        copy = self.copy_of(region)
        self.wait_for_rounds(5)
        self.kill(self.running[region])
        shutil.rmtree(self.region_directory(region))
        copy.rename(self.region_directory(region))
        coordinator = self.coordinator(self.run_config, region, "--auto")
        self.running[region] = [coordinator, self.worker(self.run_config, region)]
        wait_until(lambda: "it is an older copy, or its disk went back" in coordinator.log.read_text(), "its word", coordinator)
        wait_until(lambda: "old_copy" in [event.get("event") for event in self.events_of(region)], "the event", coordinator)
        self.wait_for_rounds(5)
        self.end_with_one_history()


if __name__ == "__main__":
    unittest.main()
