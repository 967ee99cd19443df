"""One region's disk gives back other bytes than it took, while the run goes on.

CAUSEWAY_FLIPS says how many bits are flipped, one at a time, and CAUSEWAY_FLIPS_SEED where."""
import collections
import os
import random
import shutil
import sys
import unittest

from harness import read_json, wait_until
from run_by_hand import RunByHand

FLIPS = int(os.environ.get("CAUSEWAY_FLIPS", 6))
SEED = int(os.environ.get("CAUSEWAY_FLIPS_SEED", 1))
VICTIM = "ap-northeast"


class Damage(RunByHand):
    place = "nothing"

    def start_run(self):
        self.config_file = self.config(addresses=self.addresses, steps=10_000_000)
        text = self.config_file.read_text().replace("grace_min_s = 2", "grace_min_s = 0.05\ngrace_max_s = 0.5")
        self.config_file.write_text(text)
        *self.others, self.coordinator_process = self.start_coordinators(self.config_file)
        *others, self.worker_process = self.start_workers(self.config_file, (1, 1, 1))
        self.others += others
        self.wait_for_rounds(3)

    def version(self, region):
        return self.status(region).get("version", 0)

    def wait_for_rounds(self, rounds):
        """The victim applies so many rounds more than the others have now, or one of its processes ends; true if it applies."""
        wanted = self.version("us-east") + rounds

        def moved():
            self.assertEqual([child.poll() for child in self.others], [None] * 4, "the others go on" + self.logs())
            return self.version(VICTIM) >= wanted or self.ended() is not None

        try:
            wait_until(moved, f"{VICTIM} to apply round {wanted} after a flip in {self.place}")
        except AssertionError as failure:
            raise AssertionError(f"{failure}{self.logs()}") from None
        return self.ended() is None

    def ended(self):
        """The exit code of the first of the victim's processes that ended."""
        codes = [child.poll() for child in (self.coordinator_process, self.worker_process)]
        return next((code for code in codes if code is not None), None)

    def stop_victim(self):
        for child in (self.coordinator_process, self.worker_process):
            if child.poll() is None:
                child.kill()
            child.wait()

    def start_victim(self, *flags):
        self.coordinator_process = self.coordinator(self.config_file, VICTIM, *flags)
        self.worker_process = self.worker(self.config_file, VICTIM)

    def flip(self, chance):
        """A random bit of a random file; returns the file's place."""
        directory = self.region_directory(VICTIM)
        files = sorted(path for path in directory.rglob("*") if path.is_file() and path.stat().st_size)
        path = chance.choice(files)
        content = bytearray(path.read_bytes())
        bit = chance.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        return str(path.relative_to(directory))

    def test_a_flipped_bit_anywhere_in_a_region_stops_nobody_else(self):
        self.start_run()
        chance = random.Random(SEED)
        outcomes = collections.Counter()
        for _ in range(FLIPS):
            self.stop_victim()
            place = self.place = self.flip(chance)
            self.start_victim()
            kind = place.split("/")[0] if place.startswith("spool/") else place
            if self.wait_for_rounds(2):
                outcomes[kind, "goes on"] += 1
                continue
            self.assertEqual(self.ended(), 4, f"{place}: a region that cannot go on ends with 4{self.logs()}")
            outcomes[kind, "ends alone with exit code 4"] += 1
            self.stop_victim()
            shutil.rmtree(self.region_directory(VICTIM))
            self.start_victim("--join")
            self.assertTrue(self.wait_for_rounds(2), "it begins anew" + self.logs())
        if FLIPS > 20:
            for (kind, outcome), count in sorted(outcomes.items()):
                print(f"{count:5}  {kind}: {outcome}")
        self.assertGreater(read_json(self.region_directory("us-east") / "status.json")["version"], 3)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
