"""Regions that train on a GPU by PyTorch, and end with the bits of regions on a CPU. Skipped where there is no GPU."""
import json
import re
import signal
import unittest

import torch
from region_run import REGIONS, RegionRun, read_json


@unittest.skipUnless(torch.cuda.is_available(), "PyTorch sees no GPU here")
class OnGpu(RegionRun):
    regions = 2
    settings = dict(RegionRun.settings, steps=60, k=10, codec="dense:int8,block=128")

    def start_region(self, name, how="plain", device="cuda", dtype="float32", env=None):
        return self.trainer("on_gpu.py", how, device, dtype, self.region(name), self.directory / f"meeting-{len(self.children)}", env=env)

    def end_of_run(self, *started):
        """All regions took all steps, end with the same bits, and have learnt. Gives what each printed."""
        told = [self.finish(one) for one in started]
        self.finish_coordinators()
        ends = [read_json(self.region(name) / "result.json") for name in self.names]
        self.assertEqual(ends[0]["params_digest"], ends[1]["params_digest"])
        events = map(json.loads, (self.region() / "events.jsonl").read_text().splitlines())
        self.assertEqual([sorted(event["participants"]) for event in events if "participants" in event], [sorted(self.names)] * 6)
        for one in told:
            before, after = map(float, re.findall(r"loss (?:before|after) ([\d.]+)", one))
            self.assertLess(after, 0.7 * before)
        return told

    def check(self, *first, second=("plain", "cpu")):
        told = self.end_of_run(self.start_region(REGIONS[0], *first), self.start_region(REGIONS[1], *second))
        self.assertIn("on cuda:0", told[0])

    def test_beside_a_region_on_a_cpu(self):
        self.check()

    def test_two_regions_on_one_gpu(self):
        self.check(second=("plain", "cuda"))

    def test_in_bfloat16(self):
        self.check("plain", "cuda", "bfloat16", second=("plain", "cpu", "bfloat16"))

    def test_in_float16_whose_gradients_are_scaled(self):
        self.check("plain", "cuda", "float16")

    def test_as_a_rank_of_ddp_over_nccl(self):
        self.check("ddp")

    def test_as_a_rank_of_fsdp_over_nccl(self):
        self.check("fsdp")

    def test_killed_and_started_again(self):
        other = self.start_region(REGIONS[1], "plain", "cpu")
        dies = self.start_region(REGIONS[0], env={"CAUSEWAY_TEST_DIE_AT": "25"})
        self.finish(dies, code=-signal.SIGKILL)
        self.end_of_run(self.start_region(REGIONS[0]), other)


if __name__ == "__main__":
    unittest.main()
