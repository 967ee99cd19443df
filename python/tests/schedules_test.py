"""Schedules that a library lays out end where the run ends, and go on where it stands after a kill; with the real libraries."""
import importlib.util
import re
import sys
import unittest

from run_test import REGIONS, SOURCE, InARun

SCRIPT = f"{sys.executable} {SOURCE}/python/tests/trainers/with_schedule.py"
STEPS, RATE = 40, 0.01


class Schedules(InARun):
    def rates(self, name):
        log = (self.region(name) / "worker-0.log").read_text(errors="replace")
        return [(int(step), int(of), float(rate)) for step, of, rate in re.findall(r"^rate (\d+) (\d+) (\S+)$", log, re.M)]

    def check(self, library, *more):
        self.simulate(self.program_config(steps=STEPS), " ".join([SCRIPT, library, *more]))
        for name in REGIONS:
            rates = self.rates(name)
            self.assertEqual({step for step, _, _ in rates}, set(range(STEPS)))
            for step, of, rate in rates:
                self.assertEqual(of, STEPS)
                self.assertAlmostEqual(rate, RATE * (1 - step / STEPS), places=9, msg=f"step {step} of {name}")

    @unittest.skipIf(importlib.util.find_spec("transformers") is None, "not installed: transformers")
    def test_of_a_hugging_face_trainer(self):
        self.check("transformers")

    @unittest.skipIf(importlib.util.find_spec("transformers") is None, "not installed: transformers")
    def test_of_a_hugging_face_trainer_that_was_killed(self):
        self.check("transformers", "25")

    @unittest.skipIf(importlib.util.find_spec("lightning") is None, "not installed: lightning")
    def test_of_lightning(self):
        self.check("lightning")

    @unittest.skipIf(importlib.util.find_spec("lightning") is None, "not installed: lightning")
    def test_of_lightning_that_was_killed(self):
        self.check("lightning", "25")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
