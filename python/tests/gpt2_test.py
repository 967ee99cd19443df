"""A region of PyTorch and a region of `causeway worker`, which train the same model in one run."""
import json
import re
import unittest

from region_run import RegionRun, read_json


class BesideWorker(RegionRun):
    regions = 2
    settings = dict(RegionRun.settings, steps=40, k=4, codec="dense:int8,block=128")

    def start_coordinators(self, out="run", **settings):
        self.model = self.directory / "published" / "checkpoints" / "final"
        self.run_causeway("simulate", self.config(steps=5), "--out", self.directory / "published", "--no-baseline")
        return super().start_coordinators(out, **settings)

    def config(self, **settings):
        """Of a run that goes on from the model, once there is one."""
        path = super().config(**settings)
        if self.model.exists():
            shape = re.compile(r"^family = .*?(?=^\[data\])", re.MULTILINE | re.DOTALL)
            path.write_text(shape.sub(f'from = "{self.model}"\n', path.read_text()))
        return path

    def test_both_end_with_the_same_bits(self):
        here, there = self.names
        regions = [self.start("worker", self.directory / "run.toml", "--region", here, "--rank", "0", "--directory",
                              self.region(here)),
                   self.trainer("gpt2.py", self.region(there), self.model, self.directory / "text")]
        *_, told = [self.finish(one) for one in regions]
        self.finish_coordinators()
        ends = [read_json(self.region(name) / "result.json") for name in self.names]
        self.assertEqual(ends[0]["params_digest"], ends[1]["params_digest"])
        events = map(json.loads, (self.region(here) / "events.jsonl").read_text().splitlines())
        listed = [sorted(event["participants"]) for event in events if "participants" in event]
        self.assertEqual(listed, [sorted(self.names)] * 10)
        self.assertLess(float(re.search(r"ends with loss ([\d.]+)", told)[1]), 4)  # ln 256 = 5.5 untrained


if __name__ == "__main__":
    unittest.main()
