"""Memory that is promised is kept: the peak of a worker's process is what it printed before it had any."""
import json
import re
import subprocess
import unittest

from harness import CAUSEWAY, EndToEnd

SHAPES = {10: (6, 384, 6), 50: (10, 640, 10), 300: (24, 1024, 16)}  # layers, width, heads
SLACK = 0.05
SPARSE = ('codec.matrix="topk:k=64,chunk=4096,value=2bit,index=rice"', "codec.feedback=true")
DENSE = ("codec.feedback=false",)
TIMED = ("train.timed_step_ms=20",)
STREAMING = ("sync.variant=streaming", "sync.fragments=2", "sync.overlap_steps=1")
EAGER = ("sync.variant=eager", "sync.overlap_steps=1")


class Memory(EndToEnd):
    def config_of(self, millions, regions=1, workers=1):
        layers, width, heads = SHAPES[millions]
        text = f"""
[run]
name = "memory"
[model]
family = "llama"
layers = {layers}
width = {width}
heads = {heads}
context = 64
vocabulary = 2560
[data]
files = ["{self.directory / 'text'}"]
[train]
batch = {workers}
steps = 6
k = 2
validation_sequences = 2
[codec]
matrix = "dense:int8,block=128"
vector = "dense:int8,block=128"
[sync]
spool_gib = 16
"""
        for region in range(regions):
            text += f'[[regions]]\nname = "r{region}"\nworkers = {workers}\n'
        path = self.directory / "config.toml"
        path.write_text(text)
        return path

    def assert_kept(self, millions, *settings, **shape):
        with self.subTest(settings=settings, **shape):
            self.out = self.directory / f"run-{len(self.children)}"
            more = [word for setting in settings for word in ("--set", setting)]
            child = self.start("simulate", self.config_of(millions, **shape), "--wan", "none", "--no-baseline", "--out", self.out,
                               "--sample-tokens", "0", *more)
            self.finish(child)
            region = self.out / "regions" / "r0"
            printed = re.search(r"memory: at most ([0-9,]+) MiB", (region / "worker-0.log").read_text())
            promised = int(printed[1].replace(",", "")) * 2**20
            peak = json.loads((region / "result.json").read_text())["memory_peak_bytes"]
            self.assertLess(abs(peak / promised - 1), SLACK, f"{peak / 2**20:.0f} MiB of {printed[0]}")

    def test_the_peak_is_what_was_printed_at_10_million_parameters(self):
        self.assert_kept(10, *TIMED, *DENSE)
        self.assert_kept(10, *TIMED, *SPARSE)
        self.assert_kept(10, *TIMED, *STREAMING)
        self.assert_kept(10, *TIMED, *EAGER, *SPARSE, regions=2)
        self.assert_kept(10, *DENSE)
        self.assert_kept(10, "inner.optimizer=muon")
        self.assert_kept(10, "train.shard_optimizer=true", workers=2)
        self.assert_kept(10, "train.bucket_precision=bf16", *DENSE, workers=2)

    def test_the_peak_is_what_was_printed_at_50_million_parameters(self):
        self.assert_kept(50, *TIMED, *DENSE)
        self.assert_kept(50, *EAGER)
        self.assert_kept(50, "inner.optimizer=muon", *SPARSE)

    def test_the_peak_is_what_was_printed_at_300_million_parameters(self):
        with open("/proc/meminfo") as file:
            free = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
        if free < 8 * 2**30:
            self.skipTest(f"needs 8 GiB of memory, and {free / 2**30:.1f} are free")
        self.assert_kept(300, *TIMED, *DENSE)

    def test_a_simulation_that_the_host_has_no_memory_for_is_refused_before_it_starts(self):
        # A control group's limit is what a test can set; a host has what it has.
        config = self.config_of(10)
        told = subprocess.run([CAUSEWAY, "simulate", config, "--wan", "none", "--no-baseline", "--out", self.out,
                               "--set", "model.layers=200", "--set", "model.width=8192", "--set", "model.heads=64",
                               "--set", "sync.spool_gib=1000000"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(told.returncode, 2, told.stderr)
        self.assertRegex(told.stderr, r"needs up to [0-9,]+ MiB of memory \(1 worker, 1 coordinator\), and .* has [0-9,]+ MiB free of "
                                      r"[0-9,]+ MiB: end what else needs memory here")
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main()
